"""Slurm: gres mps, whose amount becomes the thread percentage, or shard, which fences nothing."""

from __future__ import annotations

import re

from analysis.numbers import visible
from analysis.plan.exports.writing import (
    Made,
    Settings,
    dns_name,
    head,
    is_mps,
    mps_or_slices,
    no_caps_without_mps,
    refuse,
    shared,
)
from analysis.plan.solve import Placement, Plan
from analysis.reference import gpus as reference


def files(plan: Plan, settings: Settings) -> Made:
    """Write the lines of slurm.conf and gres.conf, and a batch script a job.

    Rules: users under MPS are serialised, so jobs of one GPU have one owner; a GPU is gpu or mps (or shard), not both
    at a time; one job's mps comes from one GPU; the percentages of a GPU add up to at most 100; no MIG.
    """
    mps_or_slices(plan, "slurm")
    no_caps_without_mps(plan, "slurm")
    mps = is_mps(plan)
    notes = ["memory is not enforced", "needs select/cons_tres"]
    serial = "different users never run together under MPS: Slurm serialises them"
    notes.append(serial if mps else "shard fences nothing")
    made: dict[str, str] = {}
    for one in plan.placements:
        amounts = _amounts(one) if len(one.members) > 1 and mps else []
        for at, member in enumerate(one.members):
            if len(one.members) == 1:
                gres = f"gpu:{_type(one.gpu)}:{one.gpus}"
            else:
                gres = f"mps:{amounts[at]}" if mps else "shard:1"
            name = dns_name(member.job.name)
            made[f"job-{name}.sh"] = (
                "#!/bin/sh\n"
                + f"#SBATCH --job-name={name}\n#SBATCH --gres={gres}\n"
                + head(plan, settings, "Slurm", binding=False, notes=notes)
                + f"# job: {visible(member.job.name)}\n# planned for: {visible(one.gpu)}/{one.index}\n"
                + "srun ./replace-me\n"
            )
    together = max((len(one.members) for one in shared(plan)), default=1)
    lines = []
    for kind in plan.problem.gpus:
        numbers = sorted(one.index for one in shared(plan) if one.gpu == kind.name)
        lines += [
            f"Name=mps Count=100 File=/dev/nvidia{number}" if mps
            else f"Name=shard Count={together} File=/dev/nvidia{number}"
            for number in numbers
        ]  # fmt: skip
    word = "mps" if mps else "shard"
    conf = [f"GresTypes=gpu,{word}" if shared(plan) else "GresTypes=gpu"]
    for number, kind in enumerate(plan.problem.gpus, start=1):
        own = sum(one.gpu == kind.name for one in shared(plan)) * (100 if mps else together)
        conf.append(
            f"NodeName=NODE{number} Gres=gpu:{_type(kind.name)}:{kind.count}" + (f",{word}:{own}" if own else "")
        )
    top = head(plan, settings, "Slurm", binding=False, notes=notes)
    made["slurm.conf.part"] = top + "\n".join(conf) + "\n"
    made["gres.conf.part"] = top + "AutoDetect=nvml\n" + "".join(f"{line}\n" for line in lines)
    said = "Slurm chooses who shares, enforces no memory" + (", and serialises users under MPS." if mps else ".")
    return Made("slurm", False, made, (said,))


def _amounts(one: Placement) -> list[int]:
    """Return each job's part of the 100 that a GPU counts; without percentages an even share."""
    given = [member.job.threads for member in one.members]
    known = sum(cap for cap in given if cap is not None)
    open_slots = sum(cap is None for cap in given)
    rest = (100 - known) / open_slots if open_slots else 0.0
    amounts = [int(rest if cap is None else cap) for cap in given]
    if known > 100 or min(amounts) < 1:
        raise refuse("slurm", f"the percentages of {one.name} add up to more than 100", "Lower them.")
    return amounts


def _type(gpu: str) -> str:
    table = reference.load()
    family = str(table.at[gpu, "family"]) if gpu in table.index else gpu
    return re.sub(r"[^a-z0-9]+", "_", family.lower())
