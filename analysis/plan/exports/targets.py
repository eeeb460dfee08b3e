"""The targets of an export, in one list; to add one, write its module and one entry here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputRefusedError, UsageError, Where
from analysis.plan.exports import device_plugin, dra, hami, kai, mig, mps, slurm
from analysis.plan.exports.writing import Made, Settings, refuse
from analysis.plan.problem import gpu_kind
from analysis.plan.solve import Plan
from analysis.reference import gpus as reference


@dataclass(frozen=True)
class Target:
    """What a plan can be written for.

    Attributes
    ----------
    name, title : str
        Its word and what it is.
    binding : bool
        Whether it names who shares with whom.
    memory : str
        What keeps a job within its memory.
    make : callable
        Given the plan and the settings.
    """

    name: str
    title: str
    binding: bool
    memory: str
    make: Callable[[Plan, Settings], Made]


TARGETS: tuple[Target, ...] = (
    Target("dra", "Kubernetes, dynamic resource allocation: one claim a GPU", True, "MPS pinned limit", dra.claims),
    Target("dra-memory", "Kubernetes, shares of a GPU's memory", False, "accounting only", dra.memory),
    Target("hami", "Kubernetes with HAMi: the GPU by its UUID", True, "enforced", hami.pods),
    Target("kai", "Kubernetes with KAI Scheduler: memory of each pod", False, "by NvFractions and HamiCore", kai.pods),
    Target("device-plugin", "Kubernetes, NVIDIA's device plugin: replicas", False, "MPS 1/replicas",
           device_plugin.config),
    Target("mig-parted", "MIG slices for mig-parted and the MIG manager", False, "hardware slices", mig.parted),
    Target("slurm", "Slurm: gres mps or shard", False, "not enforced", slurm.files),
    Target("mps", "A workstation: shell lines for CUDA MPS", True, "by client", mps.shell),
    Target("mps3", "CUDA MPS from driver 610 on: TOML", True, "by server", mps.toml),
)  # fmt: skip

#: One line of `nvidia-smi -L`.
_LINE = re.compile(r"GPU \d+: (?P<name>.+?) \(UUID: (?P<uuid>(GPU|MIG)-[0-9a-fA-F-]+)\)")


def target(name: str) -> Target:
    """Return a target by its name.

    Raises
    ------
    UsageError
        If there is none.
    """
    for one in TARGETS:
        if one.name == name:
            return one
    known = "; ".join(f"{one.name} ({'binding' if one.binding else 'capacity only'})" for one in TARGETS)
    raise UsageError(f"there is no export target {name!r}", f"Targets: {known}.")


def export(name: str, plan: Plan, settings: Settings | None = None) -> Made:
    """Write a plan for a target.

    Raises
    ------
    InputRefusedError
        If the target can't express the plan, with the rule in words.
    """
    chosen = target(name)
    if not plan.placements:
        raise refuse(chosen.name, "it places no job", "Make a plan with at least one GPU and one job that fits it.")
    for one in plan.placements:
        if len(one.members) > 1 and plan.problem.owners_apart and len({member.job.owner for member in one.members}) > 1:
            raise refuse(
                chosen.name, f"jobs of different owners share {one.name}, and MPS serves one user at a time",
                "Place them apart, or plan with time-slicing.",
            )  # fmt: skip
    return chosen.make(plan, settings or Settings())


def write(made: Made, folder: Path) -> list[Path]:
    """Write the files of an export into a folder, which is made where needed.

    Raises
    ------
    InputRefusedError
        If the folder can't be written to.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.files.items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
            if name.endswith(".sh"):
                path.chmod(0o755)
            written.append(path)
    except OSError as error:
        raise InputRefusedError(
            "the folder can't be written to", "Name another with --out.", Where(str(folder))
        ) from error
    return written


def read_gpu_list(path: Path) -> tuple[tuple[str, str], ...]:
    """Read kinds and UUIDs from the output of `nvidia-smi -L`, of several nodes one after the other.

    Raises
    ------
    InputRefusedError
        If no line of it names a GPU.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefusedError("the list of GPUs can't be read", "Save `nvidia-smi -L`.", Where(str(path))) from error
    return parse_gpu_list(text, str(path))


def parse_gpu_list(text: str, name: str | None = None) -> tuple[tuple[str, str], ...]:
    """Read kinds and UUIDs from the text of `nvidia-smi -L`; ``name`` is what it is called in messages."""
    found = tuple((_kind(one["name"]), one["uuid"]) for one in _LINE.finditer(text))
    if not found:
        raise InputRefusedError("no line names a GPU with its UUID", "Save `nvidia-smi -L`.", Where(name))
    return found


def _kind(name: str) -> str:
    return gpu_kind(name, 1).name if reference.known(name) else name.strip()
