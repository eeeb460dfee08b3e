"""Reads a co-run table of any shape, by a recipe that was proposed or given."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest.contract.aside import FRAME
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.own.amounts import without_units
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.proposals import propose
from analysis.ingest.formats.own.reading import header, is_parquet, read_sheet_of
from analysis.ingest.formats.own.shapes import SHAPES, UNKNOWN_GPU, Expanded, Recipe, both_in, expand
from analysis.ingest.text.decimals import Decimals, decide
from analysis.ingest.text.delimited import Sheet
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

_SHOWN = 500
#: A proposal reads the whole table; beyond this many bytes a table is mapped by hand.
MOST_BYTES = 64 << 20


def proposal(opened: Opened) -> Recipe | None:
    """Return how a table would be read as co-runs; None where nothing tells."""
    names = header(opened)
    if len(names) < 2 or len(set(names)) < len(names) or (opened.text or opened.path).stat().st_size > MOST_BYTES:
        return None
    try:
        return propose(read_sheet_of(opened))
    except StallScopeError:
        return None


class ShapedCoruns(OwnCoruns):
    """A co-run table as people have it: a row a job, a pair or a set, a matrix, or copies together."""

    name = "coruns"
    title = "Table of co-runs, its columns recognised (CSV or Parquet)"

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe

    def sniff(self, opened: Opened) -> bool:
        """Say whether the columns tell a shape."""
        return proposal(opened) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Turn the rows into rows of the own table, and read those.

        Raises
        ------
        InputRefusedError
            If nothing tells how to read it, or no row can be used.
        """
        sheet = read_sheet_of(opened)
        recipe = self.recipe or propose(sheet)
        if recipe is None:
            raise InputRefusedError("nothing tells which co-runs it holds", "Map its columns.", Where(opened.name))
        sheet, recipe = _without_units(sheet, recipe)
        decimals = decimals_of(opened, sheet, recipe)
        made = expand(sheet, recipe, decimals, hints.gpu)
        if made.lines:
            try:
                parsed = _Rows(made, decimals).parse(opened, hints)
            except InputRefusedError as error:
                line = made.lines.get(error.where.line or 0)
                where = Where(opened.name, line, _column(error.where.column, recipe))
                raise InputRefusedError(error.what, error.cure, where) from error
        else:
            parsed = Parsed(self.name, 0, {}, report={"encoding": opened.encoding, "separator": sheet.delimiter})
        return _as_in_file(parsed, made, sheet, recipe, decimals)


def _without_units(sheet: Sheet, recipe: Recipe) -> tuple[Sheet, Recipe]:
    """Take the units off the cells that hold numbers; a slowdown in percent is one, whoever mapped its column."""
    sheet, units = without_units(sheet, recipe.numeric())
    if not units:
        return sheet, recipe
    percent = {"slowdown": "slowdown_percent", "corun_share": "corun_share_percent"}

    def of(key: str, column: str) -> str:
        name, dot, number = key.partition(".")
        return f"{percent.get(name, name)}{dot}{number}" if units.get(column) == "%" else key

    columns = {of(key, column): column for key, column in recipe.columns.items()}
    across = {column: (of(key, column), setting) for column, (key, setting) in recipe.across.items()}
    measure = of(recipe.measure, next(iter(recipe.beside), ""))
    constants = dict(recipe.constants)
    stated = {unit for column, unit in units.items() if unit not in ("%", "x")} if not recipe.factors else set()
    if len(stated) == 1 and "unit" not in {*columns, *constants}:
        constants["unit"] = stated.pop()
    return sheet, replace(recipe, columns=columns, across=across, measure=measure, constants=constants)


def decimals_of(opened: Opened, sheet: Sheet, recipe: Recipe) -> Decimals:
    """Decide the decimal mark from the columns that hold numbers."""
    if is_parquet(opened):
        return Decimals(".", "numbers are stored as numbers")
    cells = (part for name in recipe.numeric() for cell in sheet.cells[name] for part in both_in(cell) or (cell,))
    return decide(dict.fromkeys(cells), sheet.delimiter)


class _Rows(OwnCoruns):
    """Reads rows that were made already."""

    name = ShapedCoruns.name

    def __init__(self, made: Expanded, decimals: Decimals) -> None:
        self._made, self._decimals = made, decimals

    def read(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Return the rows; their numbers have points."""
        names = self._made.sheet.header
        return self._made.sheet, Decimals(".", self._decimals.reason, self._decimals.sure), {n: n for n in names}


def _as_in_file(parsed: Parsed, made: Expanded, sheet: Sheet, recipe: Recipe, decimals: Decimals) -> Parsed:
    """Speak of the file's lines and columns again, so that every line is loaded, rejected or set aside once."""
    faults = [
        (made.lines[int(line)], column, reason)
        for line, column, reason in zip(
            parsed.rejected["line"], parsed.rejected["column"], parsed.rejected["reason"], strict=True
        )
    ]
    faults = sorted({*made.rejects, *faults}, key=lambda fault: (fault[0], str(fault[1])))
    rejected = pd.DataFrame(
        [(line, _column(column, recipe), reason, sheet.raw[line][:_SHOWN]) for line, column, reason in faults],
        columns=list(REJECTED_COLUMNS),
    ).astype(object)
    bad = {line for line, _, _ in faults}
    frames = dict(parsed.frames)
    counts: Counter[str] = Counter()
    if FRAME in frames:
        rows = frames.pop(FRAME)
        kept = rows.to_pylist() if isinstance(rows, pa.Table) else rows.to_dict("records")
        good = {int(line) for line in frames["run"]["line"].map(made.lines)} if "run" in frames else set()
        places: dict[int, dict[Any, Any]] = {}
        for row in kept:
            line = made.lines[int(row["line"])]
            if line not in bad and line not in good:
                places[line] = {**row, "line": line}
        counts.update(str(row["rule"]) for row in places.values())
        if places:
            frames[FRAME] = pa.Table.from_pylist(list(places.values()))
    if "run" in frames:
        run = pd.DataFrame(frames["run"])
        frames["run"] = run.assign(line=run["line"].map(made.lines))
    _add_solos(frames, made)
    unknown = any(
        isinstance(frame, pd.DataFrame) and "gpu" in frame and (frame["gpu"] == UNKNOWN_GPU).any()
        for frame in frames.values()
    )
    warnings = [f"Read as {SHAPES[recipe.shape]}.", *made.notes, *parsed.warnings]
    if unknown:
        warnings.append("The table doesn't say on which GPU: it is stored as 'unknown'; `--gpu` names it.")
    report = {
        **parsed.report, "shape": recipe.shape, "columns_taken_as": {name: key for key, name in recipe.columns.items()},
        "decimal_mark": decimals.mark, "decimal_reason": decimals.reason,
        "columns_not_read": [name for name in sheet.header if name not in recipe.used],
    }  # fmt: skip
    report.pop("columns", None)
    return replace(
        parsed, rows_read=sheet.rows_read, rejected=rejected, set_aside=dict(counts), frames=frames, report=report,
        warnings=tuple(warnings),
    )  # fmt: skip


def _column(column: str | None, recipe: Recipe) -> str | None:
    """Return the file's name of an own column, where there is one."""
    named = [name for key, name in recipe.columns.items() if key.split(".")[0] == column]
    return named[0] if len(named) == 1 else column


def _add_solos(frames: dict[str, Any], made: Expanded) -> None:
    """Add values alone of jobs that no co-run states."""
    from analysis.ingest.formats.shared.corun_frames import workload_frame
    from analysis.reference import gpus

    if not made.solos:
        return
    there = frames.get("solo")
    known = set() if there is None else set(zip(there["workload"], there["gpu"], strict=True))
    named = [{**row, "gpu": gpus.canonical(str(row["gpu"])), "peak_memory_mib": None, "memory_kind": None}
             for row in made.solos]  # fmt: skip
    more = pd.DataFrame([row for row in named if (row["workload"], row["gpu"]) not in known])
    if more.empty:
        return
    more = more.astype({"value": float, "peak_memory_mib": float})
    frames["solo"] = more if there is None or there.empty else pd.concat([there, more], ignore_index=True)
    jobs = workload_frame(set(more["workload"]))
    held = frames.get("workload")
    if held is not None:
        jobs = pd.concat([held, jobs[~jobs["name"].isin(held["name"])]], ignore_index=True)
    frames["workload"] = jobs
