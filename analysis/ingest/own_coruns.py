"""StallScope's own table of co-runs: one row for each job of each co-run, as CSV or Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest import mechanisms
from analysis.ingest.format import Hints, Opened
from analysis.ingest.names import WorkloadParts, compose, parse_workload, phase
from analysis.ingest.own_columns import CORUN_COLUMNS, is_corun
from analysis.ingest.own_reading import header, read_own
from analysis.ingest.own_rules import TOLERANCE, blank_zeros, check_rows, check_runs, fill_outcome
from analysis.ingest.own_schema import check, typed
from analysis.ingest.published import RAN, run_outcome, workload_frame
from analysis.reference import gpus
from analysis.store.parsed import FRAME_COLUMNS, Parsed

#: Rule that sets rows aside: who ran beside them is not known, as a member of their run was rejected.
PARTNER_REJECTED = "partner_rejected"

_MEASURES = ("throughput", "time")
_RUN = ["run_id", "gpu", "mechanism"]


class OwnCoruns:
    """Reads the own co-run table; see ``data/guide/own-tables.md``."""

    name = "own-coruns"
    title = "StallScope co-run table (CSV or Parquet)"

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
        sheet, decimals, written = read_own(opened, CORUN_COLUMNS)
        frame = blank_zeros(fill_outcome(typed(sheet, CORUN_COLUMNS, decimals)))
        check(sheet, frame, CORUN_COLUMNS)
        frame = _named(frame, hints)
        frame, filled = _with_solos(frame, hints)
        frame["S"] = check_rows(sheet, frame)
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
        run, member = _runs(kept)
        solo, warnings = _solos(good)
        unknown = sorted(set(kept.loc[kept["S"].isna() & (kept["outcome"] == RAN), "workload"]))
        if unknown:
            named = ", ".join(unknown[:5]) + (" ..." if len(unknown) > 5 else "")
            warnings.append(f"no solo value is known for {named}: their co-runs are loaded without a slowdown")
        if not decimals.sure:
            warnings.append(f"the decimal mark is not certain: {decimals.reason}")
        faster = kept["S"].median()
        if faster < 0.9:
            warnings.append(f"the median slowdown is {faster:.2f}: are throughput and time the wrong way round?")
        ignored = [name for name in sheet.header if name not in written]
        return Parsed(
            format=self.name,
            era="Parquet" if sheet.delimiter == "Parquet" else None,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            set_aside={PARTNER_REJECTED: len(lost)} if len(lost) else {},
            frames={"workload": _workloads(good), "run": run, "member": member, "solo": solo},
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "decimal_mark": decimals.mark,
                "decimal_reason": decimals.reason,
                "columns": written,
                "columns_not_read": ignored,
                "solos_filled_in": filled,
            },
            warnings=tuple(warnings),
        )


def _named(frame: pd.DataFrame, hints: Hints) -> pd.DataFrame:
    """Fill in what a row may leave out: the GPU from the hints, the workload's name from its parts."""
    gpu = {name: gpus.canonical(name) for name in set(frame["gpu"])}
    made = frame["workload"] == ""
    names = [compose(parts) if parts.model else "" for parts in map(_parts, frame[made].to_dict("records"))]
    workload = frame["workload"].copy()
    workload[made] = names
    return frame.assign(
        gpu=frame["gpu"].map(gpu).mask(frame["gpu"] == "", hints.gpu or ""),
        mechanism=frame["mechanism"].map(mechanisms.canonical),
        workload=workload,
    )


def _parts(row: Mapping[Any, Any]) -> WorkloadParts:
    text = {name: str(row[name]).strip() or None for name in ("model", "family", "dataset", "precision", "phase")}
    batch = float(row["batch_size"])
    return WorkloadParts(
        model=text["model"],
        family=text["family"] or text["model"],
        training_data=text["dataset"],
        batch_size=int(batch) if batch == batch else None,
        precision=text["precision"],
        phase=phase(text["phase"]),
    )


def _workloads(good: pd.DataFrame) -> pd.DataFrame:
    """What the columns say goes before what the name says."""
    found: dict[str, WorkloadParts] = {}
    for row in good.drop_duplicates("workload").to_dict("records"):
        name = str(row["workload"])
        parts, read = _parts(row), parse_workload(name)
        found[name] = WorkloadParts(
            **{**vars(read), **({"family": parts.family} if parts.family else {}), **parts.known()}
        )
    return workload_frame(found, found)


def _with_solos(frame: pd.DataFrame, hints: Hints) -> tuple[pd.DataFrame, int]:
    """Fill in solo values that stand in another row of the file, or in the data set, for the same workload and GPU."""
    filled = 0
    loaded = hints.solos() if hints.solos is not None else None
    for measure in _MEASURES:
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


def _runs(kept: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    number = kept.groupby(_RUN, sort=False).ngroup()
    first = kept.assign(run=number, line=kept.index).drop_duplicates("run")
    groups = kept["outcome"].eq(RAN).groupby(number)
    run = first[["run", "gpu", "mechanism", "line"]].assign(external_id=first["run_id"])
    run["k"] = run["run"].map(groups.size())
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


def _solos(good: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """One solo value for each workload and GPU: the measure and unit that most rows use, as the median."""
    rows = []
    warnings = []
    for (workload, gpu), part in good.groupby(["workload", "gpu"], sort=True):
        measure = next((name for name in _MEASURES if part[f"solo_{name}"].notna().any()), None)
        unit, value = None, None
        if measure is not None:
            stated = part.dropna(subset=[f"solo_{measure}"])
            unit = stated["unit"].mode().iloc[0] or None
            values = stated.loc[stated["unit"] == (unit or ""), f"solo_{measure}"]
            value = float(values.median())
            if values.max() > values.min() * (1 + TOLERANCE):
                warnings.append(
                    f"{workload} on {gpu} has solo values from {values.min():.4g} to {values.max():.4g}: two campaigns?"
                )
        elif part["S"].notna().any():
            # Only slowdowns are known: alone the job does its work once in the time that it takes alone.
            measure, unit, value = "normalised", "normalised", 1.0
        peak = part.dropna(subset=["peak_memory_mib"])
        if measure is None and peak.empty:
            continue
        top = peak.nlargest(1, "peak_memory_mib")
        memory, kind = next(iter(zip(top["peak_memory_mib"], top["memory_kind"], strict=True)), (None, None))
        rows.append((workload, gpu, measure or "normalised", unit, value, memory, kind or None))
    columns = ["workload", "gpu", "measure", "unit", "value", "peak_memory_mib", "memory_kind"]
    return pd.DataFrame(rows, columns=columns).astype({"value": float, "peak_memory_mib": float}), warnings
