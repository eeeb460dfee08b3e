"""StallScope's own table of co-runs: one row for each job of each co-run, as CSV or Parquet."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.own.columns import CORUN_COLUMNS, PROVENANCE, is_corun
from analysis.ingest.formats.own.naming import MEASURES, name_rows, solo_rows, workloads
from analysis.ingest.formats.own.reading import check, header, read_own, typed
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN, run_outcome
from analysis.ingest.text.decimals import Decimals
from analysis.ingest.text.delimited import Sheet
from analysis.reference.mechanism_names import MPS
from analysis.store.parsed import FRAME_COLUMNS, Parsed

#: A stated slowdown may be rounded; beyond this it says something else than the values do.
TOLERANCE = 0.02

#: A slowdown beyond this is a damaged number and no measurement.
LARGEST = 1e12

#: Clients that CUDA MPS serves at once.
MPS_CLIENTS = 48
#: How far from k a slowdown may be to count as k.
_EXACTLY = 0.002
#: A table of one run with more members than this is more likely many runs under one number.
_ONE_RUN = 8

_TIME_UNIT = re.compile(r"(?:ns|us|µs|ms|s|sec|secs|seconds?|min|minutes?|h|hours?)(?:/(?:it|iter|step|batch|epoch))?")


def blank_zeros(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame without the zeros that stand for the missing value of a job that did not run."""
    out = frame["outcome"] == DID_NOT_RUN
    zeros = {
        name: frame[name].mask(out & (frame[name] == 0)) for name in ("corun_throughput", "corun_time", "slowdown")
    }
    return frame.assign(**zeros)


def check_rows(sheet: Sheet, frame: pd.DataFrame, unmeasured: pd.Series[bool] | None = None) -> pd.Series[float]:
    """Reject rows that contradict themselves, and return the slowdown of the others.

    Parameters
    ----------
    sheet : Sheet
        Takes the rejects.
    frame : pd.DataFrame
        Typed rows of the co-run table, indexed by line; ``outcome`` is filled, solo values that stand elsewhere are
        filled in.
    unmeasured : pd.Series of bool, optional
        Rows that say that the job ran: without a value they were not measured.

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
    silent = ~out & ~any_corun
    if unmeasured is not None:
        silent &= ~unmeasured
    sheet.reject(frame.index[silent], "slowdown", "is empty, and so are the co-run throughput and time")

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
    odd = computed.fillna(stated)
    for line in frame.index[((odd > LARGEST) | (odd < 1 / LARGEST)) & (odd > 0) & ~out]:
        reason = f"solo and co-run values give a slowdown of {odd[line]:.3g}, which no measurement has"
        sheet.reject([line], "corun_throughput" if by_throughput.notna()[line] else "corun_time", reason)
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


#: Rule that sets rows aside: who ran beside them is not known, as a member of their run was rejected.
PARTNER_REJECTED = "partner_rejected"

_RUN = ["run_id", "gpu", "mechanism"]


class OwnCoruns:
    """Reads the own co-run table; see ``data/guide/own-tables.md``."""

    name = "own-coruns"
    title = "StallScope co-run table (CSV or Parquet)"

    def read(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Read the text cells under the documented names, the decimal mark, and which column was which."""
        return read_own(opened, CORUN_COLUMNS)

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header names a run and a measure of the co-run."""
        return is_corun(header(opened))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read, check and join the rows to runs.

        Raises
        ------
        InputRefusedError
            If the file can't be read, or no row of it can be used.
        """
        sheet, decimals, written = self.read(opened)
        frame = typed(sheet, CORUN_COLUMNS, decimals)
        # A job that ran and was not measured says so itself; a row without any word of it is incomplete.
        unmeasured = frame["outcome"] == RAN
        frame = blank_zeros(fill_outcome(frame))
        check(sheet, frame, CORUN_COLUMNS)
        frame = name_rows(frame, hints)
        frame, filled = _with_solos(frame, hints)
        frame["S"] = check_rows(sheet, frame, unmeasured)
        frame["slot"], lost = check_runs(sheet, frame)
        good = frame.loc[sheet.good().index]
        kept = good.drop(index=lost)
        if kept.empty and good.empty:
            first = sheet.rejected().iloc[0]
            raise InputRefusedError(
                f"none of {sheet.rows_read} rows can be used, the first because {first['column']} {first['reason']}",
                "Compare the table with the template.",
                Where(opened.name, int(first["line"]), first["column"]),
            )
        if kept.empty:
            first = sheet.rejected().iloc[0]
            raise InputRefusedError(
                f"none of {sheet.rows_read:,} rows can be used: every run lost a member, the first because "
                f"{first['column']} {first['reason']}",
                "Compare the table with the template.", Where(opened.name, int(first["line"]), first["column"]),
            )  # fmt: skip
        run, member = _runs(kept)
        solo, warnings = solo_rows(good)
        measured = kept[["corun_throughput", "corun_time"]].notna().any(axis=1)
        unknown = sorted(set(kept.loc[kept["S"].isna() & measured & (kept["outcome"] == RAN), "workload"]))
        if unknown:
            named = ", ".join(unknown[:5]) + (" ..." if len(unknown) > 5 else "")
            warnings.append(f"no solo value is known for {named}: their co-runs are loaded without a slowdown")
        if not decimals.sure:
            warnings.append(f"the decimal mark is not certain: {decimals.reason}")
        warnings += _taking_turns(kept)
        warnings += _crowded(kept, written.get("run_id", "run_id"))
        faster = kept["S"].median()
        if faster < 0.9:
            warnings.append(f"the median slowdown is {faster:.2f}: are throughput and time the wrong way round?")
        aside = Aside()
        if len(lost):
            aside.add(PARTNER_REJECTED, list(lost), [sheet.raw[int(line)] for line in lost])
        ignored = [name for name in sheet.header if name not in written and name not in PROVENANCE]
        return Parsed(
            format=self.name,
            era="Parquet" if sheet.delimiter == "Parquet" else None,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            set_aside=dict(aside.counts),
            frames={
                "workload": workloads(good),
                "run": run,
                "member": member,
                "solo": solo,
                **aside.frames(opened),
            },
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "decimal_mark": decimals.mark,
                "decimal_reason": decimals.reason,
                **sheet.skipped,
                "columns": written,
                "columns_not_read": ignored,
                "solos_filled_in": filled,
                **_provenance(sheet),
            },
            warnings=tuple(warnings),
        )


def _crowded(kept: pd.DataFrame, column: str) -> list[str]:
    """Warn of runs with more members than can share a GPU: then the column of runs is none."""
    if kept.empty:
        return []
    sizes = kept.groupby(_RUN, sort=False).size()
    largest = int(sizes.max())
    if largest <= MPS_CLIENTS and not (len(sizes) == 1 and largest > _ONE_RUN):
        return []
    jobs = kept["workload"].nunique()
    return [
        f"the column {column!r} makes {len(sizes):,} {'run' if len(sizes) == 1 else 'runs'}, the largest of "
        f"{largest:,} members of {jobs:,} jobs: is it what tells co-runs apart? MPS has {MPS_CLIENTS} clients at most"
    ]


def _taking_turns(kept: pd.DataFrame) -> list[str]:
    """Warn of runs under MPS in which k jobs pay k each, exactly: so do jobs that take turns."""
    ran = kept[(kept["mechanism"] == MPS) & (kept["outcome"] == RAN)]
    if ran.empty:
        return []
    runs = ran.groupby(_RUN, sort=False)["S"]
    apart = (runs.agg(["min", "max"]).div(runs.size(), axis=0) - 1).abs().max(axis=1)
    count = int(((apart < _EXACTLY) & (runs.count() == runs.size()) & (runs.size() > 1)).sum())
    if not count:
        return []
    which = "In 1 run" if count == 1 else f"In {count:,} runs"
    return [
        f"{which} under {MPS} every job of k takes k times as long, so that together they are no faster than one after "
        "the other: that is how jobs take turns; check that MPS was in effect"
    ]


def _with_solos(frame: pd.DataFrame, hints: Hints) -> tuple[pd.DataFrame, int]:
    """Fill in solo values that stand in another row of the file, or in the data set, for the same workload and GPU."""
    filled = 0
    loaded = hints.solos() if hints.solos is not None else None
    for measure in MEASURES:
        column = f"solo_{measure}"
        needed = frame[f"corun_{measure}"].notna() & frame[column].isna() & frame["slowdown"].isna()
        if not needed.any():
            continue
        known = frame.dropna(subset=[column]).groupby(["workload", "gpu"])[column].median()
        if loaded is not None and len(loaded):
            there = loaded[loaded["measure"] == measure].groupby(["workload", "gpu"])["value"].median()
            known = known.combine_first(there)
        keys = pd.MultiIndex.from_frame(frame.loc[needed, ["workload", "gpu"]])
        values = known.reindex(keys).to_numpy(dtype=float)
        frame.loc[needed, column] = values
        filled += int((values == values).sum())
    return frame, filled


def _provenance(sheet: Sheet) -> dict[str, dict[str, list[str]]]:
    """Return what a capture says its runs were measured on: the distinct values of each column."""
    found = {name: sorted(set(sheet.cells[name]) - {""})[:20] for name in PROVENANCE if name in sheet.cells}
    return {"measured_on": found} if found else {}


def _runs(kept: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    number = kept.groupby(_RUN, sort=False).ngroup()
    first = kept.assign(run=number, line=kept.index).drop_duplicates("run")
    groups = kept["outcome"].eq(RAN).groupby(number)
    run = first[["run", "gpu", "mechanism", "line"]].assign(external_id=first["run_id"])
    run["k"] = run["run"].map(groups.size())
    remarks = kept["workload"].where(kept["note"] != "") + ": " + kept["note"]
    notes = remarks.dropna().groupby(number).agg("; ".join)
    run["note"] = run["run"].map(notes).astype(object)
    run["note"] = run["note"].where(run["note"].notna(), None)
    ran = run["run"].map(groups.sum())
    run["outcome"] = [run_outcome(int(some), int(k)) for some, k in zip(ran, run["k"], strict=True)]
    by_throughput = kept["corun_throughput"].notna() | (kept["corun_time"].isna() & kept["solo_throughput"].notna())
    by_time = ~by_throughput & (kept["corun_time"].notna() | kept["solo_time"].notna())
    member = kept.assign(
        run=number,
        slot=kept["slot"].astype(int),
        measure=pd.Series("slowdown", index=kept.index).mask(by_time, "time").mask(by_throughput, "throughput"),
        solo_value=kept["solo_time"].where(by_time).fillna(kept["solo_throughput"].where(by_throughput)),
        corun_value=kept["corun_time"].where(by_time).fillna(kept["corun_throughput"].where(by_throughput)),
        slowdown=kept["S"],
    )
    for name in ("unit", "memory_kind", "mig_profile", "priority"):
        member[name] = member[name].mask(member[name] == "", None)
    columns = [name for name in FRAME_COLUMNS["member"] if name in member.columns]
    return run.reset_index(drop=True), member[columns].reset_index(drop=True)
