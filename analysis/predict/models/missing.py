"""What would make an answer about a job better, each with the command that gets it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from analysis.ingest.formats.ncu.advice import COMMAND_FEW
from analysis.predict.frame.quantities import QUANTITIES
from analysis.predict.models import evidence as tier
from analysis.predict.models.gather import Gathered

#: Asides in the meaning of a column, left out of a list.
BRACKETS = re.compile(r" ?\([^)]*\)")

#: What is said of a job whose solo baseline is doubtful.
AGAIN = "its time alone, measured again, as the checks doubt it: stallscope capture solo --workload JOB -- COMMAND"

#: Profiles a program alone, and measures two together; JOB, JOB_A and JOB_B are the programs.
PROFILE = COMMAND_FEW
CORUN = "stallscope capture corun --mechanism mps --workload A --workload B -- JOB_A ::: JOB_B"

#: Samples memory and utilisation of a job.
PEAK = (
    "nvidia-smi --query-gpu=timestamp,utilization.gpu,utilization.memory,memory.used --format=csv -lms 100 > job.csv, "
    "while it runs alone"
)

#: What gets each kind of evidence.
_COMMANDS = {"counters": PROFILE, "duty cycle": PEAK}  # fmt: skip


def missing_of(
    found: Gathered, job: str, memory: str, evidence: str, read: Collection[str] | None, *, doubtful: bool = False
) -> tuple[str, ...]:
    """Say what would make the answer better, each with the command that gets it."""
    profile = found.profiles[job]
    missing = [AGAIN] if doubtful else []
    if memory == "unknown" and not np.isfinite(float(profile["peak_memory"])):
        missing.append(f"peak memory: {_COMMANDS['duty cycle']}")
    for kind, command in _COMMANDS.items():
        names = [
            BRACKETS.sub("", quantity.meaning).split(",")[0]
            for quantity in QUANTITIES
            if quantity.what == kind and quantity.name in (read or ()) and _unknown(profile, quantity.name)
        ]
        if names:
            missing.append(f"{', '.join(names)}: {command}")
    if tier.evidence_of(profile) in ("none", "telemetry"):
        missing.append(f"stall profile: {_COMMANDS['counters']}")
    if evidence != "measured" and not found.calibrated:
        missing.append(f"a measured co-run on this GPU: {CORUN}, or the co-run table of the template")
    return tuple(missing)


def _unknown(profile: pd.Series[Any], name: str) -> bool:
    return name != "peak_memory" and not np.isfinite(float(profile[name]))
