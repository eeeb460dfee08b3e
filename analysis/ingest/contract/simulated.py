"""Files that a simulator wrote say so in their text; what they hold never passes for measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.store.database import Database
from analysis.store.queries import sources
from analysis.store.queries.sources import OWN_SIMULATOR

#: Stands in the first lines of every file that StallScope's simulator writes.
MARK = "simulated by StallScope"

#: Stands in the first lines of the witness: what others' cycle-level simulator says of StallScope's own kernels.
WITNESS_MARK = "simulated by GPGPU-Sim"

#: Simulators by the mark that their files carry. Only the first shares its model with the white box.
SIMULATORS: Mapping[str, str] = {MARK: OWN_SIMULATOR, WITNESS_MARK: "GPGPU-Sim"}

#: Stands in the name of every GPU that only a stand-in for the driver has.
MADE_UP = "(made up)"

#: The data set of the simulated sample that ships with StallScope; measurements have no place in it.
SAMPLE = "sample"

_FIRST = 8192

#: What the line says after the mark: the job, and the GPU that its figures stand for.
_ABOUT = re.compile(re.escape(MARK) + r'[^"\n]*"([^"\n]+)" alone on ([^\r\n]+)')


def line(workload: str, gpu: str) -> str:
    """Return the line that a simulated profile begins with; `stated` reads it back."""
    return f'==STALLSCOPE== {MARK}: no GPU was involved. "{workload}" alone on {gpu}\n'


def stated(opened: Opened) -> tuple[str, str] | None:
    """Return the workload and the GPU that a simulated profile states, None where it states none."""
    found = _ABOUT.search(opened.head[:_FIRST])
    return (found[1], found[2].strip()) if found else None


def completed(hints: Hints, opened: Opened) -> Hints:
    """Complete what the user did not say by what a simulated profile states of itself."""
    about = stated(opened)
    if about is None:
        return hints
    if hints.workload is None:
        hints = replace(hints, workload=about[0], workload_from="stated in the file")
    return replace(hints, gpu=hints.gpu or about[1])


def is_simulated(opened: Opened) -> bool:
    """Say whether a file states that a simulator wrote it, or that its GPU is made up."""
    return simulator(opened) is not None


def simulator(opened: Opened) -> str | None:
    """Return which simulator a file says it is from, as `SIMULATORS` names it; None where it says of none.

    A GPU that is made up is StallScope's own stand-in.
    """
    head = opened.head[:_FIRST]
    found = next((name for mark, name in SIMULATORS.items() if mark in head), None)
    return found or (OWN_SIMULATOR if MADE_UP in head else None)


def check_dataset(database: Database, dataset: str, name: str, *, simulated: bool) -> None:
    """Refuse a file that must not go into the data set.

    Raises
    ------
    InputRefusedError
        If simulated and measured values would share a data set.
    """
    held = sources.is_simulated(database, dataset)
    holds = dataset == SAMPLE if held is None else held
    if simulated and not holds and held is not None:
        raise InputRefusedError(
            f"it is simulated, and the data set {dataset} holds measurements",
            "Load it into a data set of its own with --dataset.",
            Where(name),
        )
    if holds and not simulated:
        raise InputRefusedError(
            f"it is measured, and the data set {dataset} is simulated",
            "Load it into another data set with --dataset.",
            Where(name),
        )
