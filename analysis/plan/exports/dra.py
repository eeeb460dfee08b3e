"""Dynamic resource allocation: a named claim that the pods of a GPU refer to, or shares of its memory."""

from __future__ import annotations

from typing import Any

from analysis.plan.exports.writing import (
    GPU,
    PLAN,
    Made,
    Settings,
    dns_name,
    documents,
    head,
    is_mps,
    memory_limit_mib,
    mps_or_slices,
    namespace,
    no_caps_without_mps,
    place,
    pod,
    refuse,
    shared,
)
from analysis.plan.solve import Placement, Plan
from analysis.reference import gpus as reference

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"


def claims(plan: Plan, settings: Settings) -> Made:
    """Write one ResourceClaim a GPU and the pods that share it; Kubernetes 1.34 or later.

    Rules: the pods of a claim are of one namespace; one default percentage for all clients of a claim; the pinned
    limits of all clients fit into the GPU less the reserve.
    """
    mps_or_slices(plan, "dra")
    no_caps_without_mps(plan, "dra")
    notes = ["needs the driver's feature gates MPSSupport (CUDA MPS) and TimeSlicingSettings (time-slicing)"]
    items: list[dict[str, Any]] = []
    for one in plan.placements:
        owners = {member.job.owner for member in one.members}
        if len(owners) > 1:
            raise refuse(
                "dra", f"pods in different namespaces can't use one claim, and {one.name} has jobs of "
                f"{', '.join(sorted(owners))}",
                "Place jobs of one owner together, or choose the target kai or device-plugin.",
            )  # fmt: skip
        name = dns_name(f"stallscope-{one.gpu}-{one.index}".lower())
        items.append(_claim(plan, settings, one, name))
        reference_of = [{"name": "gpu", "resourceClaimName": name}]
        items += [
            pod(settings, member, one, {"claims": [{"name": "gpu"}]}, spec={"resourceClaims": reference_of})
            for member in one.members
        ]
    text = head(plan, settings, "dynamic resource allocation", binding=True, notes=notes) + documents(items)
    return Made("dra", True, {"stallscope-dra.yaml": text}, tuple(f"It {note}." for note in notes))


def _claim(plan: Plan, settings: Settings, one: Placement, name: str) -> dict[str, Any]:
    device: dict[str, Any] = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": _selector(one.gpu)}}]}
    if one.gpus > 1:
        device |= {"allocationMode": "ExactCount", "count": one.gpus}
    devices: dict[str, Any] = {"requests": [{"name": "gpu", "exactly": device}]}
    if len(one.members) > 1:
        sharing = {"strategy": "MPS", "mpsConfig": _mps(plan, one)} if is_mps(plan) else {
            "strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"},
        }  # fmt: skip
        parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
        devices["config"] = [{"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": parameters}}]
    return {
        "apiVersion": API, "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace(one.members[0].job.owner),
                     "annotations": {GPU: place(one), PLAN: settings.plan_id}},
        "spec": {"devices": devices},
    }  # fmt: skip


def _mps(plan: Plan, one: Placement) -> dict[str, Any]:
    caps = {member.job.threads for member in one.members}
    if len(caps) > 1:
        raise refuse(
            "dra", f"one thread percentage holds for all clients of a claim, and the jobs of {one.name} have several",
            "Give them the same, or choose the targets hami, slurm or mps.",
        )  # fmt: skip
    limits = [memory_limit_mib(member) for member in one.members]
    largest = max((limit for limit in limits if limit is not None), default=0)
    kind = next(kind for kind in plan.problem.gpus if kind.name == one.gpu)
    free = kind.memory_mib * (1 - plan.problem.reserve)
    if largest * len(one.members) > free:
        raise refuse(
            "dra", f"one pinned memory limit holds for all clients of a claim, and {len(one.members)} times "
            f"{largest} MiB is more than {one.name} has left",
            "Place jobs of like peaks together, or choose the targets hami or mps.",
        )  # fmt: skip
    found: dict[str, Any] = {"defaultPinnedDeviceMemoryLimit": f"{largest}Mi"}
    cap = next(iter(caps))
    if cap is not None:
        if cap != int(cap):
            raise refuse("dra", f"a thread percentage of {cap:g} is no whole number", "Round it.")
        found = {"defaultActiveThreadPercentage": int(cap), **found}
    return found


def _selector(gpu: str) -> str:
    table = reference.load()
    family = str(table.at[gpu, "family"]) if gpu in table.index else gpu
    word = "".join(character if character.isalnum() else "." for character in family.lower())
    return f"device.attributes['{DRIVER}'].productName.lowerAscii().matches('^.*{word}.*$')"


def memory(plan: Plan, settings: Settings) -> Made:
    """Write claims on a part of a GPU's memory; the driver chooses the GPU.

    Rules: never with CUDA MPS; every job's peak is known, or it is alone.
    """
    if shared(plan) and is_mps(plan):
        raise refuse(
            "dra-memory", "shares of a GPU's memory are refused together with CUDA MPS",
            "Plan with time-slicing, or choose the target dra.",
        )  # fmt: skip
    mps_or_slices(plan, "dra-memory")
    no_caps_without_mps(plan, "dra-memory")
    notes = [
        "memory is accounted, not enforced: a job that takes more takes its neighbour's",
        "needs the driver's flag --consumable-shares=memory",
    ]
    items: list[dict[str, Any]] = []
    for one in plan.placements:
        for member in one.members:
            peak = memory_limit_mib(member)
            exactly: dict[str, Any] = {"deviceClassName": DRIVER}
            if len(one.members) > 1 and peak is not None:
                exactly["capacity"] = {"requests": {"memory": f"{peak}Mi"}}
            if one.gpus > 1:
                exactly |= {"allocationMode": "ExactCount", "count": one.gpus}
            name = dns_name(f"gpu-{member.job.name}")
            items.append(
                {
                    "apiVersion": API, "kind": "ResourceClaim",
                    "metadata": {"name": name, "namespace": namespace(member.job.owner)},
                    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
                }
            )  # fmt: skip
            claim = [{"name": "gpu", "resourceClaimName": name}]
            items.append(pod(settings, member, one, {"claims": [{"name": "gpu"}]}, spec={"resourceClaims": claim}))
    text = head(plan, settings, "shares of memory", binding=False, notes=notes) + documents(items)
    return Made("dra-memory", False, {"stallscope-dra-memory.yaml": text}, ("Memory is accounted, not enforced.",))
