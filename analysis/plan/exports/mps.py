"""CUDA MPS by hand: shell lines for one machine, and the TOML that drivers from 610 on read."""

from __future__ import annotations

import shlex

from analysis.numbers import visible
from analysis.plan.exports.writing import (
    Made,
    Settings,
    device_of,
    dns_name,
    head,
    is_mps,
    memory_limit_mib,
    quoted,
    refuse,
    shared,
)
from analysis.plan.solve import Placement, Plan


def _check(plan: Plan, target: str) -> None:
    if shared(plan) and not is_mps(plan):
        raise refuse(
            target, f"it shares by CUDA MPS, not by {plan.problem.mechanism}",
            "Plan with --mechanism 'CUDA MPS', or choose another target.",
        )  # fmt: skip
    for one in shared(plan):
        given = [member.job.threads for member in one.members if member.job.threads is not None]
        if sum(given) > 100 and len(given) == len(one.members):
            raise refuse(target, f"the percentages of {one.name} add up to more than 100", "Lower them.")
        limits = [memory_limit_mib(member) for member in one.members]
        kind = next(kind for kind in plan.problem.gpus if kind.name == one.gpu)
        free = kind.memory_mib * (1 - plan.problem.reserve) + len(limits)
        if None in limits or sum(limit for limit in limits if limit is not None) > free:
            raise refuse(
                target, f"the memory limits of {one.name} are unknown or more than it has less the reserve",
                "Measure the peaks, or place fewer jobs on it.",
            )  # fmt: skip


def shell(plan: Plan, settings: Settings) -> Made:
    """Write a script a GPU: it starts the MPS daemon and each job as a client with its own limits.

    Rules: it shares by CUDA MPS; percentages of a GPU add up to at most 100; memory limits fit with the reserve.
    """
    _check(plan, "mps")
    made = {}
    for one in plan.placements:
        visible_devices = ",".join(_devices(plan, settings, one))
        lines = [
            "#!/bin/sh",
            head(plan, settings, "CUDA MPS by hand", binding=True, notes=[
                "each job is a program of its name in the folder JOBS (./jobs where it is not set)",
            ]).rstrip("\n"),
            "set -eu",
            'JOBS="${JOBS:-./jobs}"',
            f"export CUDA_VISIBLE_DEVICES={shlex.quote(visible_devices)}",
        ]  # fmt: skip
        together = len(one.members) > 1
        if together:
            folder = f'"${{XDG_RUNTIME_DIR:-$HOME}}"/stallscope-mps-{dns_name(f"{one.gpu}-{one.index}".lower())}'
            lines += [f"export CUDA_MPS_PIPE_DIRECTORY={folder} CUDA_MPS_LOG_DIRECTORY={folder}",
                      f"mkdir -p {folder}", "nvidia-cuda-mps-control -d"]  # fmt: skip
        for member in one.members:
            limits = []
            if together and member.job.threads is not None:
                limits.append(f"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={member.job.threads:g}")
            if together:
                limits.append(f"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={memory_limit_mib(member)}M")
            lines.append(f"# job: {visible(member.job.name)}")
            program = f'"$JOBS"/{dns_name(member.job.name)}'
            lines.append(f"STALLSCOPE_JOB={shlex.quote(visible(member.job.name))} {' '.join([*limits, program])} &")
        lines.append("wait")
        if together:
            lines.append("echo quit | nvidia-cuda-mps-control")
        made[f"gpu-{dns_name(f'{one.gpu}-{one.index}'.lower())}.sh"] = "\n".join(lines) + "\n"
    said = "The scripts name the partners; memory and threads are limited client by client. A fault ends all clients."
    return Made("mps", True, made, (said,))


def _devices(plan: Plan, settings: Settings, one: Placement) -> list[str]:
    """Return the UUIDs where they are known, else the numbers, which mean something where there is one kind of GPU."""
    if settings.devices:
        return device_of(plan, settings, one, "mps")
    if len(plan.problem.gpus) > 1:
        raise refuse(
            "mps", "with several kinds of GPU their numbers on the machine are not known",
            "Give the output of `nvidia-smi -L` with --gpu-list.",
        )  # fmt: skip
    return [str(number) for number in range(one.index, one.index + one.gpus)]


def toml(plan: Plan, settings: Settings) -> Made:
    """Write a server a shared GPU for `nvidia-cuda-mps-control -a FILE`, from driver 610 on.

    Rules: GPUs by UUID; one percentage and one memory limit for all clients of a server.
    """
    _check(plan, "mps3")
    parts = ['schema_version = "1.0"\n']
    for one in plan.placements:
        uuids = device_of(plan, settings, one, "mps3")
        names = ", ".join(visible(member.job.name) for member in one.members)
        if len(one.members) == 1:
            parts.append(f"# {uuids[0]} alone: {names}\n")
            continue
        caps = {member.job.threads for member in one.members}
        if len(caps) > 1:
            raise refuse(
                "mps3", f"one thread percentage holds for all clients of a server, and the jobs of {one.name} have "
                "several",
                "Choose the target mps.",
            )  # fmt: skip
        largest = max(memory_limit_mib(member) or 0 for member in one.members)
        kind = next(kind for kind in plan.problem.gpus if kind.name == one.gpu)
        if largest * len(one.members) > kind.memory_mib * (1 - plan.problem.reserve):
            raise refuse(
                "mps3", f"one memory limit holds for all clients of a server, and {len(one.members)} times "
                f"{largest} MiB is more than {one.name} has left",
                "Choose the target mps.",
            )  # fmt: skip
        key = dns_name(f"gpu-{one.gpu}-{one.index}".lower())
        parts.append(
            f"# clients: {names}\n[servers.{key}]\nallowed_devices = {quoted(uuids[0])}\n"
            f"pinned_memory_limit = {quoted(f'{largest}M')}\n"
        )
        cap = next(iter(caps))
        if cap is not None:
            parts[-1] += f"active_thread_percentage = {cap:g}\n"
    text = head(plan, settings, "CUDA MPS 3", binding=True) + "\n".join(parts)
    return Made("mps3", True, {"stallscope-mps.toml": text}, ("A server's limits hold for all of its clients.",))
