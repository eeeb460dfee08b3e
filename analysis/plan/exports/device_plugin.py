"""NVIDIA's device plugin: GPUs of a node as replicas; any pods that ask share them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from analysis.plan.exports.writing import (
    Made,
    Settings,
    documents,
    head,
    is_mps,
    mps_or_slices,
    no_caps_without_mps,
    no_own_caps,
    pod,
    quoted,
    refuse,
    shared,
    to_yaml,
)
from analysis.plan.solve import Plan

NAME = "stallscope-sharing"


def config(plan: Plan, settings: Settings) -> Made:
    """Write the plugin's ConfigMap, one key a number of replicas, and pods that choose nodes by it.

    Rules: one method and one number of replicas for all GPUs of a node; at least two replicas; under MPS every job's
    peak is at most the memory divided by the replicas, and its threads are an even share; no MIG.
    """
    mps_or_slices(plan, "device-plugin")
    no_caps_without_mps(plan, "device-plugin")
    no_own_caps(plan, "device-plugin")
    if not shared(plan):
        raise refuse("device-plugin", "no GPU is shared, and replicas begin at two", "It needs no configuration.")
    mps = is_mps(plan)
    sizes = Counter((one.gpu, len(one.members)) for one in plan.placements for _ in range(one.gpus))
    for (gpu, replicas), count in sorted(sizes.items()):
        if replicas > 1 and count % settings.gpus_per_node:
            raise refuse(
                "device-plugin", f"all GPUs of a node have the same replicas, and {count} {gpu} with {replicas} jobs "
                f"are no whole nodes of {settings.gpus_per_node}",
                "Plan with another --k or number of GPUs, or choose the target dra.",
            )  # fmt: skip
    for one in shared(plan):
        kind = next(kind for kind in plan.problem.gpus if kind.name == one.gpu)
        part = kind.memory_mib / len(one.members)
        large = next((member for member in one.members if not member.job.memory_mib <= part), None)
        if mps and large is not None:
            raise refuse(
                "device-plugin", f"under MPS each client gets 1/{len(one.members)} of the memory, "
                f"{part:.0f} MiB, and {large.job.name!r} needs {math.ceil(large.job.memory_mib)}",
                "Choose the targets dra, hami or mps, or place it alone.",
            )  # fmt: skip
    keys = {replicas: f"{'mps' if mps else 'slices'}-{replicas}" for _, replicas in sizes if replicas > 1}
    data = {key: _plugin(mps, replicas) for replicas, key in sorted(keys.items())}
    notes = ["any two pods that ask share a GPU; time-slicing fences no memory" if not mps
             else "any two pods that ask share a GPU; each gets an equal part of memory and threads"]  # fmt: skip
    top = head(plan, settings, "NVIDIA's device plugin", binding=False, notes=notes)
    body = to_yaml(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "namespace": "gpu-operator"}}
    ) + "data:\n" + "".join(
        f"  {key}: |-\n" + "".join(f"    {line}\n" for line in text.splitlines()) for key, text in data.items()
    )  # fmt: skip
    items: list[dict[str, Any]] = []
    for one in plan.placements:
        chosen = {"nvidia.com/device-plugin.config": keys[len(one.members)]} if len(one.members) > 1 else {}
        for member in one.members:
            spec = {"nodeSelector": chosen} if chosen else {}
            items.append(pod(settings, member, one, {"limits": {"nvidia.com/gpu": one.gpus}}, spec=spec))
    apply = "".join(
        f"# {count // settings.gpus_per_node} nodes with {settings.gpus_per_node} {gpu}: "
        f"kubectl label node NODE nvidia.com/device-plugin.config={keys[replicas]}\n"
        for (gpu, replicas), count in sorted(sizes.items()) if replicas > 1
    )  # fmt: skip
    files = {"stallscope-device-plugin.yaml": top + apply + body, "stallscope-pods.yaml": top + documents(items)}
    said = "The device plugin lets any pods that ask share a GPU: it holds how many jobs, not which."
    return Made("device-plugin", False, files, (said,))


def _plugin(mps: bool, replicas: int) -> str:
    resource: dict[str, Any] = {"name": "nvidia.com/gpu", "replicas": replicas}
    method: dict[str, Any] = {"renameByDefault": False, "resources": [resource]}
    if not mps:
        method["failRequestsGreaterThanOne"] = True
    text = to_yaml({"version": "v1", "sharing": {"mps" if mps else "timeSlicing": method}})
    return text.replace(quoted("v1"), "v1").replace(quoted("nvidia.com/gpu"), "nvidia.com/gpu")
