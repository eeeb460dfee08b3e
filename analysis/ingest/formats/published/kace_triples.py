"""KACE's triples: three jobs under CUDA MPS on a V100 with 32 GB; their solo values stand in the file of pairs.

Every column is one way of giving out the MPS thread percentages, ``(w1_100, w2_100, w3_100)`` that without limits. A
cell holds three throughputs, ``None`` for a job that did not run; a cell of nothing but ``None`` under limits was not
measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.mechanisms import MPS
from analysis.ingest.formats.published.kace_columns import GPU, THROUGHPUT_UNIT
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, RAN, run_outcome, workload_frame
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.store.parsed import FRAME_COLUMNS, Parsed

_JOBS = ("workload1", "workload2", "workload3")
_SHARES = re.compile(r"\(\s*w1_(\d{1,3}),\s*w2_(\d{1,3}),\s*w3_(\d{1,3})\s*\)")
_CELL = re.compile(r"\(([^,()]*),([^,()]*),([^,()]*)\)")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?")


class KaceTriples:
    """Reads ``kace_triples_raw.csv``: slowdown = solo throughput of the pairs / shared throughput."""

    name = "kace-triples"
    title = "KACE co-run triples (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has three workloads and thread percentages of three jobs."""
        header = header_of(opened)[0]
        return set(_JOBS) <= set(header) and any(_SHARES.fullmatch(name) for name in header)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the triples; the pairs must be loaded before them, for the solo values.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        for column in _JOBS:
            sheet.reject(sheet.cells.index[sheet.cells[column] == ""], column, "is empty")
        member, empty = _members(sheet)
        member["solo_value"] = member["workload"].map(_solos(hints, gpu))
        member["slowdown"] = member["solo_value"] / member["corun_value"]
        run = _runs(member, gpu)
        unknown = sorted(set(member.loc[member["solo_value"].isna(), "workload"]))
        warnings: tuple[str, ...] = ()
        if unknown:
            named = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
            warnings = (
                f"no solo throughput is loaded for {named}: their members have no slowdown. "
                "Remove this source, load kace_pairs.csv into the same data set, then load this file again",
            )
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(member["workload"]),
                "run": run,
                "member": member[[column for column in FRAME_COLUMNS["member"] if column in member.columns]],
            },
            report={
                "encoding": opened.encoding,
                "separator": sheet.delimiter,
                "gpu": gpu,
                "mechanism": MPS,
                "percentage_cells_not_measured": empty,
                "outcomes": {str(name): int(count) for name, count in run["outcome"].value_counts().items()},
            },
            warnings=warnings,
        )


def _solos(hints: Hints, gpu: str) -> Mapping[str, float]:
    if hints.solos is None:
        return {}
    known = hints.solos()
    here = known[(known["gpu"] == gpu) & (known["measure"] == "throughput")].dropna(subset=["value"])
    return {str(name): float(value) for name, value in here.groupby("workload")["value"].median().items()}


def _members(sheet: Sheet) -> tuple[pd.DataFrame, int]:
    """Return one row a member, runs numbered in the order of lines and columns, and the cells that hold nothing."""
    shares = {name: match.groups() for name in sheet.header if (match := _SHARES.fullmatch(name))}
    measured = []
    empty = 0
    for line, row in zip(sheet.cells.index, sheet.cells.to_dict("records"), strict=True):
        for column, percentages in shares.items():
            free = set(percentages) == {"100"}
            values = _cell(str(row[column]))
            if values is None:
                sheet.reject([line], column, "isn't three throughputs in brackets")
            elif free or any(value is not None for value in values):
                measured.append((line, column, values, percentages, [str(row[job]) for job in _JOBS]))
            else:
                empty += 1
    bad = {line for line, _, _ in sheet.rejects}
    rows = []
    for number, (line, column, values, percentages, jobs) in enumerate(item for item in measured if item[0] not in bad):
        for slot, (job, value, percentage) in enumerate(zip(jobs, values, percentages, strict=True)):
            rows.append(
                (number, slot, job, DID_NOT_RUN if value is None else RAN, value, float(percentage), line, column)
            )
    columns = ["run", "slot", "workload", "outcome", "corun_value", "thread_percentage", "line", "column"]
    member = pd.DataFrame(rows, columns=columns).astype({"corun_value": float})
    return member.assign(measure="throughput", unit=THROUGHPUT_UNIT), empty


def _runs(member: pd.DataFrame, gpu: str) -> pd.DataFrame:
    first = member.drop_duplicates("run")
    ran = member["outcome"].eq(RAN).groupby(member["run"]).sum()
    return pd.DataFrame(
        {
            "run": first["run"],
            "external_id": "line " + first["line"].astype(str) + " " + first["column"],
            "gpu": gpu,
            "mechanism": MPS,
            "k": len(_JOBS),
            "outcome": [run_outcome(int(some), len(_JOBS)) for some in ran],
            "line": first["line"],
        }
    ).reset_index(drop=True)


def _cell(text: str) -> tuple[float | None, ...] | None:
    """Read three throughputs; None and 0 say that the job did not run."""
    match = _CELL.fullmatch(text)
    if match is None:
        return None
    values: list[float | None] = []
    for part in (piece.strip() for piece in match.groups()):
        if part == "None":
            values.append(None)
        elif _NUMBER.fullmatch(part) and float(part) < float("inf"):
            values.append(float(part) or None)
        else:
            return None
    return tuple(values)
