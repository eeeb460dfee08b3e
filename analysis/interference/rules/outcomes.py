"""Zeros that mean "did not run", and what a file holds that was measured while the jobs ran together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.ingest.contract.aside import what_aside
from analysis.interference.finding import Finding, counted, named, place
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.sources import set_aside_rows, sources

#: Key of a source's report with the columns that were measured during the co-run.
DURING = "measured_during_corun"

#: Rule under which an importer sets aside a cell that stands a second time, seen from the partner.
MIRRORED = "mirrored_cell"

#: Key of a source's report with the number of figures that repeat those of another row.
REPEATED = "repeated_figures"


def did_not_run(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report runs that did not run or ran in part: an outcome of their own, not a slowdown of 0."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    failed = members[members["run_outcome"] != "ran"]
    findings = []
    for (name, gpu, mechanism), group in failed.groupby(["dataset", "gpu", "mechanism"], sort=True):
        runs = group.groupby("run_id", sort=True).agg(
            dataset=("dataset", "first"), gpu=("gpu", "first"), mechanism=("mechanism", "first"),
            workloads=("workload", lambda jobs: " + ".join(jobs)), outcome=("run_outcome", "first"),
            k=("k", "first"), file_name=("file_name", "first"), line=("line", "first"),
        )  # fmt: skip
        here = (members["dataset"] == name) & (members["gpu"] == gpu) & (members["mechanism"] == mechanism)
        total = members.loc[here, "run_id"].nunique()
        part = int((runs["outcome"] == "partial").sum())
        sentence = (
            f"{len(runs):,} of {counted(int(total), 'set')} did not run"
            f"{f' or ran in part only ({part:,})' if part else ''}, most often for lack of memory. "
            "Where a file writes 0 for them it means this outcome; they have no slowdown."
        )
        rows = runs.reset_index()
        findings.append(Finding("did-not-run", "info", place(name, gpu, mechanism), len(rows), sentence, rows))
    return findings


def zero_values(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report members that count as run although their value is zero or not finite."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    ran = members[(members["outcome"] == "ran") & members["corun_value"].notna()]
    bad = ran[~(ran["corun_value"] > 0) | (ran["corun_value"] == float("inf"))]
    findings = []
    for (name, gpu), rows in bad.groupby(["dataset", "gpu"], sort=True):
        sentence = (
            f"{counted(len(rows), 'member')} {'counts' if len(rows) == 1 else 'count'} as run with a value of 0 or "
            "infinity: mark them as did_not_run in the file."
        )
        columns = ["dataset", "gpu", "mechanism", "run_id", "slot", "workload", "corun_value", "file_name", "line"]
        shown = rows[columns].reset_index(drop=True)
        findings.append(Finding("zero-values", "error", place(name, gpu), len(shown), sentence, shown))
    return findings


def measured_during_corun(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report columns that were measured while the jobs ran together: as inputs they would leak the answer."""
    findings = []
    for source in _reports(database, dataset):
        name, file = source.dataset, source.file
        columns = source.report.get(DURING) or []
        if columns:
            rows = pd.DataFrame({"dataset": name, "file_name": file, "column": columns})
            sentence = (
                f"{named(columns)} of {file} {'was' if len(columns) == 1 else 'were'} measured during the co-run: no "
                "input of a prediction from solo profiles, so no predictor reads them."
            )
            findings.append(Finding("measured-during-corun", "info", place(name, file), len(rows), sentence, rows))
    return findings


def mirrored_cells(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report cells that stand twice in a file, once from each partner's side, and were counted once."""
    findings = []
    for source in _reports(database, dataset):
        count = source.aside.get(MIRRORED, 0)
        if count:
            rows = _aside_rows(database, source, {MIRRORED: count})
            sentence = (
                f"{counted(count, 'cell')} of {source.file} repeat{'s' if count == 1 else ''} another one from the "
                f"partner's side; each pair counts once.{_kept(rows, count)}"
            )
            where = place(source.dataset, source.file)
            findings.append(Finding("mirrored-cells", "info", where, count, sentence, rows))
    return findings


def set_aside(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report rows of files that were understood and left out by a rule of their format, other than mirrored cells."""
    findings = []
    for source in _reports(database, dataset):
        rules = {rule: count for rule, count in source.aside.items() if rule != MIRRORED and count}
        repeated: Any = source.report.get(REPEATED) or 0
        rules |= {REPEATED: int(repeated)} if repeated else {}
        if rules:
            rows = _aside_rows(database, source, rules)
            parts = "; ".join(f"{what_aside(rule)}: {count:,}" for rule, count in rules.items())
            total = sum(rules.values())
            what = counted(total, "row" if set(rules) != {REPEATED} else "figure")
            sentence = (
                f"{what} of {source.file} {'was' if total == 1 else 'were'} understood and set aside, so no "
                f"figure counts {'it' if total == 1 else 'them'}. {parts[0].upper()}{parts[1:]}.{_kept(rows, total)}"
            )
            where = place(source.dataset, source.file)
            findings.append(Finding("set-aside", "info", where, total, sentence, rows))
    return findings


@dataclass(frozen=True)
class _Source:
    number: int
    dataset: str
    file: str
    report: Mapping[str, Any]
    aside: Mapping[str, int]


def _reports(database: Database, dataset: str | None) -> list[_Source]:
    table = sources(database, Filter(datasets=(dataset,) if dataset else ()))
    return [
        _Source(
            int(row["source_id"]), str(row["dataset"]), str(row["file_name"]), json.loads(str(row["report"])),
            {rule: int(count) for rule, count in json.loads(str(row["set_aside"])).items()},
        )
        for row in table.sort_values("source_id").to_dict("records")
    ]  # fmt: skip


def _aside_rows(database: Database, source: _Source, rules: Mapping[str, int]) -> pd.DataFrame:
    """Return the rows themselves, or one a rule where an earlier version only counted them."""
    found = set_aside_rows(database, source.number)
    found = found[found["rule"].isin(list(rules))].reset_index(drop=True)
    if found.empty:
        found = pd.DataFrame({"rule": list(rules), "rows": list(rules.values())})
    found.insert(0, "dataset", source.dataset)
    found.insert(1, "file_name", source.file)
    return found


def _kept(rows: pd.DataFrame, total: int) -> str:
    """Say it where not all rows can be shown."""
    if "rows" in rows:
        return " Remove the file and load it again to see them; they were only counted when it was loaded."
    return f" The first {len(rows):,} are shown." if len(rows) < total else ""
