"""KAI Scheduler: memory of each pod by annotations; the binder chooses who shares."""

from __future__ import annotations

from typing import Any

from analysis.plan.exports.writing import (
    Made,
    Settings,
    documents,
    head,
    is_mps,
    memory_limit_mib,
    mps_or_slices,
    namespace,
    no_own_caps,
    pod,
    refuse,
)
from analysis.plan.solve import Plan


def pods(plan: Plan, settings: Settings) -> Made:
    """Write a pod a job with request and limit of memory; a job that is alone asks for whole GPUs.

    Rules: never memory and a whole GPU in one pod; no thread percentages; pods of different compute modes never share.
    """
    mps_or_slices(plan, "kai")
    no_own_caps(plan, "kai", even=False)
    notes = ["memory is enforced in the modes NvFractions and HamiCore, and not in the default NonMemoryEnforced"]
    mode = "sm-sharing" if is_mps(plan) else "time-slicing"
    items: list[dict[str, Any]] = []
    for one in plan.placements:
        for member in one.members:
            annotations: dict[str, str] = {}
            resources: dict[str, Any] = {}
            if len(one.members) > 1:
                peak = memory_limit_mib(member)
                if peak is None:
                    raise refuse("kai", f"the memory of {member.job.name!r} is unknown", "Measure its peak.")
                annotations = {
                    "nvidia.com/container.main.gpu-memory.request": f"{peak}Mi",
                    "nvidia.com/container.main.gpu-memory.limit": f"{peak}Mi",
                    "kai.scheduler/gpu-compute-sharing-mode": mode,
                }
            else:
                resources = {"limits": {"nvidia.com/gpu": one.gpus}}
            items.append(
                pod(
                    settings, member, one, resources, annotations=annotations,
                    labels={"kai.scheduler/queue": namespace(member.job.owner)},
                    spec={"schedulerName": "kai-scheduler"},
                )
            )  # fmt: skip
    text = head(plan, settings, "KAI Scheduler", binding=False, notes=notes) + documents(items)
    said = "KAI enforces memory in the modes NvFractions and HamiCore, not in its default; it chooses who shares."
    return Made("kai", False, {"stallscope-kai.yaml": text}, (said,))
