"""HAMi: pods bound to a GPU by its UUID, with memory that is enforced and cores that are not."""

from __future__ import annotations

from typing import Any

from analysis.plan.exports.writing import (
    Made,
    Settings,
    device_of,
    documents,
    head,
    memory_limit_mib,
    pod,
    refuse,
    shared,
)
from analysis.plan.solve import Plan


def pods(plan: Plan, settings: Settings) -> Made:
    """Write a pod a job with the GPU's UUID, its memory in MiB and, where given, its cores in percent.

    Rules: the UUID of every GPU is known; memory of jobs that share is known; no MIG slices.
    """
    if shared(plan) and plan.problem.mechanism.casefold().startswith("mig"):
        raise refuse("hami", "this export shares whole GPUs, not MIG slices", "Choose the target mig-parted.")
    notes = ["cores are soft (they can be overshot); memory is enforced"]
    items: list[dict[str, Any]] = []
    for one in plan.placements:
        uuids = device_of(plan, settings, one, "hami")
        for member in one.members:
            limits: dict[str, Any] = {"nvidia.com/gpu": one.gpus}
            peak = memory_limit_mib(member)
            if len(one.members) > 1:
                if peak is None:
                    raise refuse("hami", f"the memory of {member.job.name!r} is unknown", "Measure its peak.")
                limits["nvidia.com/gpumem"] = peak
                if member.job.threads is not None:
                    limits["nvidia.com/gpucores"] = round(member.job.threads)
            annotations = {"nvidia.com/use-gpuuuid": ",".join(uuids), "hami.io/gpu-scheduler-policy": "binpack"}
            items.append(pod(settings, member, one, {"limits": limits}, annotations=annotations))
    text = head(plan, settings, "HAMi", binding=True, notes=notes) + documents(items)
    said = "HAMi's cores are soft: a cap is no promise. Its memory is enforced."
    return Made("hami", True, {"stallscope-hami.yaml": text}, (said,))
