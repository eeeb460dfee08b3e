"""MIG: a slice for each job, as mig-parted and the MIG manager read it."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.plan.exports.writing import Made, Settings, dns_name, head, quoted, refuse, shared, to_yaml
from analysis.plan.solve import Placed, Plan
from analysis.settings import asset

CONFIG = "stallscope-plan"
_SLICES, _MEMORY_SLICES = 7, 8


def parted(plan: Plan, settings: Settings) -> Made:
    """Write mig-parted's configuration, the largest slice of a GPU first.

    Rules: the plan shares by MIG; the GPU has profiles; every job fits a profile and the slices fit the GPU.
    """
    if not shared(plan) or not plan.problem.mechanism.casefold().startswith("mig"):
        raise refuse(
            "mig-parted", f"it cuts GPUs into MIG slices, and this plan shares by {plan.problem.mechanism}",
            "Plan with a MIG mechanism that was measured, or choose another target.",
        )  # fmt: skip
    kinds = {one.gpu for one in plan.placements}
    entries: list[dict[str, Any]] = []
    comments = []
    for gpu in sorted(kinds):
        for one in sorted((one for one in plan.placements if one.gpu == gpu), key=lambda one: one.index):
            devices = list(range(one.index, one.index + one.gpus))
            if len(one.members) == 1:
                entries.append({"devices": devices, "mig-enabled": False})
                continue
            chosen = sorted(((_profile(gpu, member), member) for member in one.members), key=lambda pair: pair[0][1:],
                            reverse=True)  # fmt: skip
            compute, memory = sum(one[1] for one, _ in chosen), sum(one[2] for one, _ in chosen)
            if compute > _SLICES or memory > _MEMORY_SLICES:
                raise refuse(
                    "mig-parted", f"the slices of {one.name} need {compute} of {_SLICES} compute and {memory} of "
                    f"{_MEMORY_SLICES} memory slices",
                    "Place fewer jobs on it.",
                )  # fmt: skip
            counts: dict[str, int] = {}
            for profile, member in chosen:
                counts[profile[0]] = counts.get(profile[0], 0) + 1
                comments.append(f"# {gpu} {one.index} {profile[0]}: {quoted(member.job.name)}\n")
            entries.append({"devices": devices, "mig-enabled": True, "mig-devices": counts})
    if len(kinds) > 1:
        raise refuse("mig-parted", "one configuration is for GPUs of one kind", "Export one kind after the other.")
    top = head(plan, settings, "mig-parted", binding=False, notes=[
        f"check: nvidia-mig-parted assert -f FILE -c {CONFIG}; apply: label the node nvidia.com/mig.config={CONFIG}",
        "slices are hardware: no job needs to know its neighbour",
    ])  # fmt: skip
    text = to_yaml({"version": "v1", "mig-configs": {dns_name(CONFIG): entries}})
    said = "MIG slices are hardware; a job asks for its profile and gets any slice of it."
    return Made("mig-parted", False, {"stallscope-mig.yaml": top + "".join(comments) + text}, (said,))


def _profile(gpu: str, member: Placed) -> tuple[str, int, int]:
    """Return the smallest profile that holds a job: name, compute slices, memory slices."""
    table = pd.read_csv(asset("data", "mig_profiles.csv"))
    own = table[table["gpu"] == gpu]
    if own.empty:
        raise refuse("mig-parted", f"{gpu} has no MIG profiles", "Choose a GPU with MIG, such as A100-40GB.")
    fits = own[own["memory_mib"] >= member.job.memory_mib] if not math.isnan(member.job.memory_mib) else own.head(0)
    if fits.empty:
        raise refuse("mig-parted", f"no profile of {gpu} holds {member.job.name!r}", "Place it alone.")
    row = fits.sort_values(["compute_slices", "memory_slices"], kind="stable").iloc[0]
    return str(row["profile"]), int(row["compute_slices"]), int(row["memory_slices"])
