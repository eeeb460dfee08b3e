"""What all exports share: valid names, YAML with every string quoted, the head of a file, a refusal."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.errors import InputRefusedError
from analysis.numbers import visible
from analysis.plan.solve import Placed, Placement, Plan

#: Annotations by which a plan can be read back from Kubernetes files.
JOB, GPU, PLAN = "stallscope.io/job", "stallscope.io/gpu", "stallscope.io/plan"

#: Stands where only the user knows what to run.
IMAGE = "registry.example/replace-me:latest"

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_RESERVED = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


@dataclass(frozen=True)
class Settings:
    """What an export needs beside the plan.

    Attributes
    ----------
    plan_id : str
        Name of the plan, for the head of every file.
    devices : tuple of (str, str)
        Kind and UUID of the GPUs, in the order of their numbers; empty where not known.
    gpus_per_node : int
        GPUs of one node.
    """

    plan_id: str = ""
    devices: tuple[tuple[str, str], ...] = ()
    gpus_per_node: int = 1


@dataclass(frozen=True)
class Made:
    """The files of one export.

    Attributes
    ----------
    target : str
        Its name.
    binding : bool
        Whether the files name who shares with whom; else they only say how much each job takes.
    files : dict of str to str
        Text by file name.
    notes : tuple of str
        What the target does not enforce.
    """

    target: str
    binding: bool
    files: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())


def refuse(target: str, rule: str, cure: str) -> InputRefusedError:
    """Return the error for a plan that a target can't express."""
    return InputRefusedError(f"{target} can't express this plan: {rule}", cure)


def dns_name(text: str, room: int = 63) -> str:
    """Return a DNS-1123 label for any text; one that had to be changed ends with a hash, so that no two become one.

    Examples
    --------
    >>> dns_name("bert-0"), dns_name("My Job/1")
    ('bert-0', 'my-job-1-4fc861')
    """
    if len(text) <= room and _LABEL.fullmatch(text):
        return text
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    base = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[: room - 7].strip("-") or "job"
    return f"{base}-{mark}"


def quoted(text: str) -> str:
    """Return a YAML (and TOML) string in double quotes that holds any text."""
    out = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            out.append("\\" + character)
        elif character.isprintable() and not 0xD800 <= code < 0xE000:
            out.append(character)
        else:
            out.append(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
    return '"' + "".join(out) + '"'


def to_yaml(value: Any, indent: int = 0) -> str:
    """Write plain values as YAML; every string is quoted, so that none becomes a number or a truth value."""
    pad = "  " * indent
    if isinstance(value, Mapping):
        if not value:
            return f"{pad}{{}}\n"
        return "".join(f"{pad}{_key(str(key))}:{_below(item, indent)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        if not value:
            return f"{pad}[]\n"
        parts = []
        for item in value:
            if isinstance(item, Mapping | list | tuple) and item:
                parts.append(f"{pad}- {to_yaml(item, indent + 1).lstrip(' ')}")
            else:
                parts.append(f"{pad}-{_below(item, indent)}")
        return "".join(parts)
    return f"{pad}{_scalar(value)}\n"


def _below(item: Any, indent: int) -> str:
    if isinstance(item, Mapping | list | tuple):
        if not item:
            return " {}\n" if isinstance(item, Mapping) else " []\n"
        return "\n" + to_yaml(item, indent + 1)
    return f" {_scalar(item)}\n"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _RESERVED else quoted(key)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    raise TypeError(f"{type(value).__name__} has no place in these files")


def head(plan: Plan, settings: Settings, target: str, *, binding: bool, notes: Sequence[str] = ()) -> str:
    """Return the comment above every file: plan, evidence, binding or capacity only, and what is not enforced."""
    tiers = sorted({one.evidence for one in plan.placements if one.evidence})
    simulated = any(one.simulated for one in plan.placements)
    evidence = ", ".join(tiers) or "none: every job is alone"
    lines = [
        f"StallScope plan {settings.plan_id or 'without a name'} for {target}",
        f"evidence: {evidence}{' (simulated)' if simulated else ''}; limit {plan.problem.limit:g} x",
        "binding: it names who shares with whom" if binding
        else "capacity only: it says what each job takes, and the scheduler chooses who shares",
        *notes,
    ]  # fmt: skip
    return "".join(f"# {visible(line)}\n" for line in lines)


def documents(items: Sequence[Mapping[str, Any]]) -> str:
    """Write several YAML documents."""
    return "---\n".join(to_yaml(item) for item in items)


def named_pods(plan: Plan) -> dict[str, str]:
    """Return the name of each job's pod."""
    return {one.job.name: dns_name(one.job.name) for one in plan.members}


def namespace(owner: str) -> str:
    """Return the namespace of an owner."""
    return dns_name(owner) if owner else "default"


def place(one: Placement) -> str:
    """Return a GPU as annotations name it."""
    return f"{one.gpu}/{one.index}"


def pod(
    settings: Settings, member: Placed, where: Placement, resources: Mapping[str, Any], *,
    annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return a pod that runs one job; its image is for the user to fill in."""
    metadata: dict[str, Any] = {
        "name": dns_name(member.job.name),
        "namespace": namespace(member.job.owner),
        **({"labels": dict(labels)} if labels else {}),
        "annotations": {JOB: member.job.name, GPU: place(where), PLAN: settings.plan_id, **(annotations or {})},
    }
    container = {"name": "main", "image": IMAGE, "resources": dict(resources)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"restartPolicy": "Never", **(spec or {}), "containers": [container]},
    }


def memory_limit_mib(member: Placed) -> int | None:
    """Return a job's peak memory as a whole number of MiB, rounded up; None where unknown."""
    return None if math.isnan(member.job.memory_mib) else math.ceil(member.job.memory_mib)


def shared(plan: Plan) -> list[Placement]:
    """Return the GPUs that jobs share."""
    return [one for one in plan.placements if len(one.members) > 1]


def is_mps(plan: Plan) -> bool:
    """Say whether jobs share by CUDA MPS."""
    return "mps" in plan.problem.mechanism.casefold() and not plan.problem.mechanism.casefold().startswith("mig")


def is_time_slicing(plan: Plan) -> bool:
    """Say whether jobs share by time-slicing."""
    return plan.problem.mechanism.casefold().replace("-", " ").startswith("time slic")


def mps_or_slices(plan: Plan, target: str) -> None:
    """Refuse mechanisms that a target does not know."""
    if shared(plan) and not (is_mps(plan) or is_time_slicing(plan)):
        raise refuse(
            target, f"it shares by CUDA MPS or time-slicing, not by {plan.problem.mechanism}",
            "Plan with --mechanism 'CUDA MPS' or time-slicing, or choose another target.",
        )  # fmt: skip


def no_own_caps(plan: Plan, target: str, even: bool = True) -> None:
    """Refuse thread percentages that differ from an even share, for targets that know no other."""
    for one in shared(plan):
        for member in one.members:
            share = 100 / len(one.members)
            if member.job.threads is not None and not (even and abs(member.job.threads - share) < 0.5):
                raise refuse(
                    target, f"it can't give {member.job.name!r} {member.job.threads:g} % of the threads",
                    "Leave the thread percentages out, or choose the targets slurm, mps or hami.",
                )  # fmt: skip


def no_caps_without_mps(plan: Plan, target: str) -> None:
    """Refuse thread percentages under time-slicing, which knows none."""
    capped = [member for one in shared(plan) for member in one.members if member.job.threads is not None]
    if capped and not is_mps(plan):
        raise refuse(
            target, f"{plan.problem.mechanism} has no thread percentages, and {capped[0].job.name!r} has one",
            "Leave them out, or plan with CUDA MPS.",
        )  # fmt: skip


def device_of(plan: Plan, settings: Settings, one: Placement, target: str) -> list[str]:
    """Return the UUIDs of a placement's GPUs.

    Raises
    ------
    InputRefusedError
        If the list of GPUs is missing or too short.
    """
    own = [uuid for kind, uuid in settings.devices if kind == one.gpu]
    if len(own) < one.index + one.gpus:
        raise refuse(
            target, f"it names GPUs by UUID, and that of {one.name} is not known",
            "Give the output of `nvidia-smi -L` of all nodes with --gpu-list.",
        )  # fmt: skip
    return own[one.index : one.index + one.gpus]
