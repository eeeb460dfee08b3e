"""Rules that rows of the own co-run table must keep beyond their single cells, each with its sentence."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN
from analysis.ingest.text.delimited import Sheet

#: A stated slowdown may be rounded; beyond this it says something else than the values do.
TOLERANCE = 0.02

_TIME_UNIT = re.compile(r"(?:ns|us|µs|ms|s|sec|secs|seconds?|min|minutes?|h|hours?)(?:/(?:it|iter|step|batch|epoch))?")


def blank_zeros(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame without the zeros that stand for the missing value of a job that did not run."""
    out = frame["outcome"] == DID_NOT_RUN
    zeros = {
        name: frame[name].mask(out & (frame[name] == 0)) for name in ("corun_throughput", "corun_time", "slowdown")
    }
    return frame.assign(**zeros)


def check_rows(sheet: Sheet, frame: pd.DataFrame) -> pd.Series[float]:
    """Reject rows that contradict themselves, and return the slowdown of the others.

    Parameters
    ----------
    sheet : Sheet
        Takes the rejects.
    frame : pd.DataFrame
        Typed rows of the co-run table, indexed by line; ``outcome`` is filled, solo values that stand elsewhere are
        filled in.

    Returns
    -------
    pd.Series
        Slowdown by line; NaN where the job did not run or nothing tells its solo value.
    """
    by_throughput = frame["solo_throughput"] / frame["corun_throughput"]
    by_time = frame["corun_time"] / frame["solo_time"]
    stated = frame["slowdown"]
    out = frame["outcome"] == DID_NOT_RUN
    any_corun = frame[["corun_throughput", "corun_time", "slowdown"]].notna().any(axis=1)

    sheet.reject(frame.index[frame["run_id"] == ""], "run_id", "is empty")
    sheet.reject(frame.index[frame["gpu"] == ""], "gpu", "is empty")
    sheet.reject(frame.index[frame["workload"] == ""], "workload", "is empty, and so is the model")
    sheet.reject(frame.index[out & any_corun], "outcome", "a job that did not run has no co-run value and no slowdown")
    sheet.reject(frame.index[~out & ~any_corun], "slowdown", "is empty, and so are the co-run throughput and time")

    apart = (by_throughput / by_time - 1).abs() > TOLERANCE
    for line in frame.index[apart & ~out]:
        reason = f"throughput says a slowdown of {by_throughput[line]:.3g}, time says {by_time[line]:.3g}"
        sheet.reject([line], "corun_time", reason)
    computed = by_throughput.fillna(by_time)
    for line in frame.index[((stated / computed - 1).abs() > TOLERANCE) & ~apart & ~out]:
        reason = f"{stated[line]:.4g} contradicts solo and co-run values, which give {computed[line]:.4g}"
        if abs(stated[line] * computed[line] - 1) <= TOLERANCE:
            reason += "; are throughput and time the wrong way round?"
        sheet.reject([line], "slowdown", reason)
    _check_units(sheet, frame)
    return computed.fillna(stated).mask(out)


def _check_units(sheet: Sheet, frame: pd.DataFrame) -> None:
    """Throughput counts work a time, time does not: a unit of the other kind means that the columns are mixed up."""
    is_time = frame["unit"].str.strip().str.lower().str.fullmatch(_TIME_UNIT.pattern).fillna(False).astype(bool)
    throughput = frame[["solo_throughput", "corun_throughput"]].notna().any(axis=1)
    time = frame[["solo_time", "corun_time"]].notna().any(axis=1)
    given = frame["unit"].str.strip() != ""
    sheet.reject(
        frame.index[given & is_time & throughput & ~time], "unit", "is a time, and the values stand as throughput"
    )
    rate = frame["unit"].str.contains("/", regex=False) & ~is_time
    sheet.reject(frame.index[given & rate & time & ~throughput], "unit", "is a rate, and the values stand as times")


def check_runs(sheet: Sheet, frame: pd.DataFrame) -> tuple[pd.Series[float], pd.Index[int]]:
    """Number the slots, and find the runs whose members are not all there.

    Parameters
    ----------
    sheet : Sheet
        Takes the rejects: a slot that stands twice, a run of one member.
    frame : pd.DataFrame
        Typed rows with ``run_id``, ``gpu``, ``mechanism`` and ``slot``. These three name a run: a number may start anew
        on the next GPU.

    Returns
    -------
    slot : pd.Series
        Slot by line; rows without one follow the largest of their run.
    lost : pd.Index
        Lines of good rows whose run lost a row to a reject: beside whom they ran is not known any more.
    """
    keys = ["run_id", "gpu", "mechanism"]
    runs = frame.groupby(keys, sort=False, dropna=False)
    size = runs["run_id"].transform("size")
    sheet.reject(
        frame.index[(size == 1) & (frame["run_id"] != "")],
        "run_id",
        "has no other member on this GPU and mechanism; the figures of a job alone stand in the solo columns",
    )
    largest = runs["slot"].transform("max").fillna(-1)
    missing = frame["slot"].isna()
    order = missing.groupby([frame[key] for key in keys], sort=False).cumsum()
    slot = frame["slot"].where(~missing, largest + order)
    repeated = frame.assign(slot=slot).duplicated([*keys, "slot"])
    before = {line for line, _, _ in sheet.rejects}
    sheet.reject(frame.index[repeated], "slot", "stands a second time in its run")
    bad = frame.index.isin(before)
    broken = pd.Series(bad, index=frame.index).groupby([frame[key] for key in keys], sort=False).transform("any")
    left = pd.Series(~bad & ~repeated.to_numpy(), index=frame.index)
    alone = left.groupby([frame[key] for key in keys], sort=False).transform("sum") < 2
    good = ~frame.index.isin({line for line, _, _ in sheet.rejects})
    return slot, frame.index[np.asarray(good & (broken | alone))]


def fill_outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the outcome ``ran`` where the file says nothing."""
    return frame.assign(outcome=frame["outcome"].mask(frame["outcome"] == "", RAN))
