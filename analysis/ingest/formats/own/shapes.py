"""Shapes of co-run tables: how the rows of other people's tables become rows of the own co-run table.

A recipe says which column fills which field, in one of five shapes; `expand` applies it. The rows that come out are
checked as those of the own table are, so that one checker serves every shape.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

import pandas as pd

from analysis.ingest.formats.own.columns import CORUN_COLUMNS, Column
from analysis.ingest.text.decimals import Decimals
from analysis.ingest.text.delimited import Sheet
from analysis.reference.mechanism_names import TIME_SLICING

Shape = Literal["job", "partner", "set", "matrix", "copies"]

#: What a row is in each shape, for people.
SHAPES: Mapping[Shape, str] = {
    "job": "a row for each job of each co-run, which a column numbers",
    "partner": "a row for each job beside a partner",
    "set": "a row for each co-run, with columns for each of its jobs",
    "matrix": "a square matrix: rows the slowed, columns the ones beside",
    "copies": "a row for each number of equal copies, with their throughput together",
}

#: Fields that only other people's tables have; each becomes fields of the own table.
EXTRA_COLUMNS: tuple[Column, ...] = (
    Column("partner", "text", "Job that ran beside; `none` or blank is a row of the job alone."),
    Column("jobs", "text", "All jobs of the co-run in one cell, such as `bert+resnet`."),
    Column("corun_share", "number", "Speed during the co-run as a share of the speed alone, up to 1.", above=0),
    Column("slowdown_percent", "number", "How much longer the job takes than alone, in percent.", above=-100),
    Column("copies", "integer", "How many equal copies ran together; 1 is a row of one alone.", least=1),
    Column("aggregate_throughput", "number", "Throughput of all copies together.", above=0),
)

#: Name of the job beside, where a table measured a co-run and names only one of its jobs.
UNNAMED = "unnamed partner"
UNKNOWN_GPU = "unknown"

#: Cells that stand for no partner.
NOBODY = frozenset({
    "", "-", "--", "none", "no", "nobody", "alone", "solo", "isolated", "isolation", "baseline", "exclusive", "nan",
    "n/a", "na", "null", "nil", "idle", "/",
})  # fmt: skip

_MEASURES = ("corun_throughput", "corun_time", "slowdown", "corun_share", "slowdown_percent")
_OWN = {column.name for column in CORUN_COLUMNS}
_NUMERIC = {column.name for column in (*CORUN_COLUMNS, *EXTRA_COLUMNS) if column.kind != "text"}
BETWEEN = re.compile(r"\s*(?:\+|;|\||&|,|/|\bwith\b|\bvs\.?(?=\s)|\band\b)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Recipe:
    """How a table is read.

    Attributes
    ----------
    shape : str
        One of `SHAPES`.
    columns : mapping of str to str
        Field of the own table, or of `EXTRA_COLUMNS`, -> column of the file. In the shape ``set`` a field of one job
        is written with its number, such as ``slowdown.2``. In a matrix ``workload`` is the column of names, and every
        column of ``beside`` one job.
    constants : mapping of str to str
        Field -> what every row has.
    beside : mapping of str to str
        Matrix: column -> job beside.
    measure : str
        Matrix: what its cells are, a field such as ``slowdown``.
    notes : tuple of str
        What was guessed, a sentence each.
    """

    shape: Shape
    columns: Mapping[str, str]
    constants: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    measure: str = "slowdown"
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> list[str]:
        """Columns of the file that are read."""
        return list(dict.fromkeys([*self.columns.values(), *self.beside]))

    def numeric(self) -> list[str]:
        """Columns of the file that hold numbers."""
        named = [column for key, column in self.columns.items() if key.split(".")[0] in _NUMERIC]
        return list(dict.fromkeys([*named, *self.beside]))


@dataclass
class Expanded:
    """Rows of the own table that a table became.

    Attributes
    ----------
    sheet : Sheet
        Cells under the own names, indexed by number of the row from 1; its rejects are of that number too.
    lines : dict of int to int
        Number of the row -> line in the file that it comes from.
    rejects : list
        (line, column, reason) of lines that became no row.
    solos : list of dict
        Values of jobs alone: workload, gpu, measure, unit, value.
    notes : list of str
        What was taken for what.
    """

    sheet: Sheet
    lines: dict[int, int]
    rejects: list[tuple[int, str | None, str]]
    solos: list[dict[str, object]]
    notes: list[str]


_Row = dict[str, str]


class _Builder:
    """Collects rows, and the values of jobs alone that stand in rows of their own."""

    def __init__(self, sheet: Sheet, recipe: Recipe, decimals: Decimals) -> None:
        self.sheet, self.recipe, self.decimals = sheet, recipe, decimals
        self.rows: list[tuple[int, _Row]] = []
        self.rejects: list[tuple[int, str | None, str]] = list(sheet.rejects)
        self.alone: dict[tuple[str, str, str], list[tuple[float, str]]] = defaultdict(list)
        self.notes = list(recipe.notes)
        self.count = 0

    def shared(self, cells: Mapping[str, str]) -> _Row:
        """Return the fields that all jobs of a row have."""
        fixed = dict(self.recipe.constants)
        return {**fixed, **{key: cells[name] for key, name in self.recipe.columns.items() if "." not in key}}

    def value(self, text: str) -> float | None:
        return self.decimals.number(text) if text else None

    def member(self, row: _Row) -> _Row:
        """Return a row in the own table's fields, numbers with points, shares and percentages as slowdowns."""
        out = {key: self._plain(key, text) for key, text in row.items() if key in _OWN}
        share = self.value(row.get("corun_share", ""))
        percent = self.value(row.get("slowdown_percent", ""))
        if share is not None and share > 0 and not out.get("slowdown"):
            out["slowdown"] = repr(1 / share)
        elif percent is not None and percent > -100 and not out.get("slowdown"):
            out["slowdown"] = repr(1 + percent / 100)
        elif share is None and percent is None and not out.get("slowdown"):
            # What is no number is rejected by the one checker, with its text.
            out["slowdown"] = row.get("corun_share", "") or row.get("slowdown_percent", "")
        out["gpu"] = out.get("gpu", "") or UNKNOWN_GPU
        if out.get("precision") in ("0", "1"):
            out["precision"] = {"0": "fp32", "1": "amp"}[out["precision"]]
        out["outcome"] = out.get("outcome", "") or "ran"
        if is_zero_run(out, self.value):
            out["outcome"] = "did_not_run"
        return out

    def _plain(self, key: str, text: str) -> str:
        number = self.value(text) if key in _NUMERIC else None
        return text if number is None else repr(number)

    def add_run(self, members: Sequence[tuple[int, _Row]], name: str | None = None) -> None:
        """Add a run of members, each with the line that it comes from."""
        self.count += 1
        for slot, (line, row) in enumerate(members):
            own = self.member(row)
            own["run_id"] = name or f"line {members[0][0]}"
            own["slot"] = str(slot)
            self.rows.append((line, own))

    def add_alone(self, row: _Row) -> bool:
        """Keep the value of a job alone; False where the row has none."""
        kept = False
        for measure in ("throughput", "time"):
            number = self.value(row.get(f"corun_{measure}", "") or row.get(f"solo_{measure}", ""))
            if number is not None and number > 0:
                key = (name_of(row), row.get("gpu", "") or UNKNOWN_GPU, measure)
                self.alone[key].append((number, row.get("unit", "")))
                kept = True
        return kept

    def done(self, gpu: str | None) -> Expanded:
        """Fill values alone into rows that lack them, and return everything."""
        for _, row in self.rows:
            for measure in ("throughput", "time"):
                key = (name_of(row), row["gpu"], measure)
                if row.get(f"corun_{measure}") and not row.get(f"solo_{measure}") and key in self.alone:
                    row[f"solo_{measure}"] = repr(median(value for value, _ in self.alone[key]))
        solos: list[dict[str, object]] = [
            {"workload": name, "gpu": found, "measure": measure, "unit": values[0][1] or None,
             "value": median(value for value, _ in values)}
            for (name, found, measure), values in self.alone.items()
        ]  # fmt: skip
        if gpu:
            for _, row in self.rows:
                row["gpu"] = gpu if row["gpu"] == UNKNOWN_GPU else row["gpu"]
            for solo in solos:
                solo["gpu"] = gpu if solo["gpu"] == UNKNOWN_GPU else solo["gpu"]
        names = [column.name for column in CORUN_COLUMNS if any(row.get(column.name) for _, row in self.rows)]
        index = pd.RangeIndex(1, len(self.rows) + 1, name="line")
        cells = pd.DataFrame(
            [[row.get(name, "") for name in names] for _, row in self.rows], index=index, columns=names, dtype=object
        )
        raw = {number: self.sheet.raw[line] for number, (line, _) in enumerate(self.rows, start=1)}
        lines = {number: line for number, (line, _) in enumerate(self.rows, start=1)}
        made = Sheet(tuple(names), cells, self.sheet.delimiter, raw, [], self.sheet.above)
        return Expanded(made, lines, self.rejects, solos, self.notes)


def is_zero_run(row: Mapping[str, str], value: object) -> bool:
    """Say whether a row states a throughput of zero and nothing else: the job did not run."""
    number = value(row.get("corun_throughput", "")) if callable(value) else None
    return number == 0 and not row.get("slowdown") and not row.get("corun_time")


def name_of(row: Mapping[str, str]) -> str:
    """Return the job's name, or what stands for one: model, data, batch size and precision."""
    parts = [row.get(name, "") for name in ("model", "dataset", "batch_size", "precision", "phase")]
    return row.get("workload", "") or "/".join(part for part in parts if part)


def expand(sheet: Sheet, recipe: Recipe, decimals: Decimals, gpu: str | None = None) -> Expanded:
    """Turn a table into rows of the own co-run table.

    Parameters
    ----------
    sheet : Sheet
        Text cells under the file's own names.
    recipe : Recipe
        How to read them.
    decimals : Decimals
        The file's decimal mark.
    gpu : str, optional
        Fills blank cells of the GPU.

    Returns
    -------
    Expanded
        Every line of the file is in a row, a value alone, or a reject.
    """
    builder = _Builder(sheet, recipe, decimals)
    records = [
        (int(str(line)), {str(name): str(cell) for name, cell in zip(sheet.cells.columns, row, strict=True)})
        for line, row in zip(sheet.cells.index, sheet.cells.itertuples(index=False, name=None), strict=True)
    ]
    _EXPANDERS[recipe.shape](builder, records)
    return builder.done(gpu)


_Records = Sequence[tuple[int, Mapping[str, str]]]


def _jobs(builder: _Builder, records: _Records) -> None:
    """Rows of one run number on one GPU and mechanism are a run; a number that stands once is a job alone."""
    runs: dict[tuple[str, str, str], list[tuple[int, _Row]]] = {}
    for line, cells in records:
        row = builder.shared(cells)
        key = (row.get("run_id", ""), row.get("gpu", ""), row.get("mechanism", ""))
        runs.setdefault(key, []).append((line, row))
    for (name, _, _), members in runs.items():
        if len(members) == 1 and builder.add_alone(members[0][1]) and not members[0][1].get("solo_throughput"):
            continue
        builder.add_run(members, name or None)


def _partners(builder: _Builder, records: _Records) -> None:
    """A row of a job beside another meets the row of the other beside it; a row that meets none has one side only."""
    waiting: dict[tuple[str, ...], list[tuple[int, _Row]]] = defaultdict(list)
    pairs: list[list[tuple[int, _Row]]] = []
    place: dict[int, int] = {}
    named = "partner" in builder.recipe.columns or "partner" in builder.recipe.constants
    others = builder.recipe.constants.get("partner", UNNAMED)
    for line, cells in records:
        row = builder.shared(cells)
        row.setdefault("workload", "")
        me = name_of(row)
        other = row.get("partner", "") if named else others
        if other.casefold() in NOBODY:
            if not builder.add_alone(row):
                builder.rejects.append(
                    (line, builder.recipe.columns.get("partner"), "names no partner, and no value alone")
                )
            continue
        if not me:
            builder.rejects.append((line, builder.recipe.columns.get("workload"), "is empty"))
            continue
        setting = (row.get("gpu", ""), row.get("mechanism", ""), row.get("run_id", ""))
        mirrored = (other, me, *setting)
        if waiting[mirrored]:
            first = waiting[mirrored].pop(0)
            pairs[place.pop(first[0])].append((line, row))
        else:
            place[line] = len(pairs)
            pairs.append([(line, row)])
            waiting[(me, other, *setting)].append((line, row))
    single = 0
    for members in pairs:
        if len(members) == 1:
            line, row = members[0]
            other = row.get("partner", "") if named else others
            # A job beside a copy of itself: both are the job, and what the row says holds for either.
            same = other == name_of(row)
            single += not same
            kept: _Row = dict(row) if same else _only(row, "gpu", "mechanism")
            members = [(line, row), (line, kept if same else {**kept, "workload": other})]
        builder.add_run(members)
    if single:
        builder.notes.append(
            f"In {single:,} {'run' if single == 1 else 'runs'} only one side was measured: the partner is loaded "
            "without a slowdown."
        )


def _sets(builder: _Builder, records: _Records) -> None:
    """Every row is a run, with columns for each of its jobs; one that names a single job is that job alone."""
    columns = builder.recipe.columns
    numbers = sorted({key.split(".")[1] for key in columns if "." in key}, key=lambda text: (len(text), text))
    listed = columns.get("jobs")
    for line, cells in records:
        shared = builder.shared(cells)
        members: list[tuple[int, _Row]] = []
        names = [part for part in BETWEEN.split(shared.get("jobs", "")) if part] if listed else []
        for place in range(max(len(numbers), len(names))):
            number = numbers[place] if place < len(numbers) else ""
            row = {key: text for key, text in shared.items() if key != "jobs"}
            own = {
                key.split(".")[0]: cells[column]
                for key, column in columns.items()
                if number and key.partition(".")[2] == number
            }
            row.update(own)
            if listed:
                row["workload"] = names[place] if place < len(names) else ""
                for key in (*_MEASURES, "solo_throughput", "solo_time"):
                    row[key] = _listed(shared[key], place, len(names)) if key in shared else row.get(key, "")
            if name_of(own if not listed else row).casefold() not in NOBODY:
                members.append((line, row))
        if len(members) >= 2:
            builder.add_run(members, shared.get("run_id") or None)
        elif members and builder.add_alone(members[0][1]):
            continue
        else:
            builder.rejects.append((line, None, "names fewer than two jobs"))


def _listed(text: str, place: int, count: int) -> str:
    parts = re.split(r"\s*[;|+/]\s*|\s*,\s+|\s+", text.strip("[]() "))
    if len(parts) != count:
        parts = text.strip("[]() ").split(",")
    return parts[place].strip() if len(parts) == count else text


def _matrix(builder: _Builder, records: _Records) -> None:
    """Cell (row, column) is the row's job beside the column's; both cells of a pair make one run."""
    recipe = builder.recipe
    name = recipe.columns["workload"]
    alone = {key: recipe.columns[key] for key in ("solo_throughput", "solo_time") if key in recipe.columns}
    rows: dict[str, tuple[int, Mapping[str, str]]] = {}
    for line, cells in records:
        job = cells[name]
        if not job or job in rows:
            builder.rejects.append((line, name, "stands a second time" if job else "is empty"))
        else:
            rows[job] = (line, cells)
    column = {job: written for written, job in recipe.beside.items()}
    bad: set[int] = set()

    def cell(job: str, beside: str) -> tuple[int, _Row] | None:
        if job not in rows or beside not in column:
            return None
        line, cells = rows[job]
        text = cells[column[beside]]
        if text.casefold() in NOBODY:
            return None
        number = builder.value(text)
        if number is None or number <= 0:
            bad.add(line)
            builder.rejects.append((line, column[beside], f"{text!r} is no {recipe.measure.replace('_', ' ')}"))
            return None
        shared = {key: cells[at] for key, at in recipe.columns.items() if key not in ("workload", *alone)}
        own = {key: cells[at] for key, at in alone.items()}
        return line, {**recipe.constants, **shared, **own, "workload": job, recipe.measure: text}

    names = list(dict.fromkeys([*rows, *column]))
    for place, first in enumerate(names):
        for second in names[place:]:
            one, two = cell(first, second), cell(second, first)
            at = one or two
            if at is None:
                continue
            bare = _only(at[1], "gpu", "mechanism", "unit")
            one = one or (at[0], {**bare, "workload": first})
            two = two or (at[0], {**bare, "workload": second})
            builder.add_run([one, two], f"{first} and {second}")
    # A line is loaded or rejected as a whole: the row of a bad cell leaves, its partners' rows stay.
    if bad:
        builder.rows = [(line, row) for line, row in builder.rows if line not in bad]
        counts: dict[str, int] = defaultdict(int)
        for _, row in builder.rows:
            counts[row["run_id"]] += 1
        for line, row in [*builder.rows]:
            if counts[row["run_id"]] == 1:
                lost = next(part for part in row["run_id"].split(" and ") if part != row["workload"])
                slot = str(1 - int(row["slot"]))
                kept = _only(row, "run_id", "gpu", "mechanism")
                builder.rows.append((line, {**kept, "slot": slot, "workload": lost, "outcome": "ran"}))
    seen = {line for line, _ in builder.rows} | {line for line, *_ in builder.rejects}
    for line, _ in records:
        if line not in seen:
            builder.rejects.append((line, None, "has no value"))


def _copies(builder: _Builder, records: _Records) -> None:
    """Equal copies share their throughput equally: each pays n times that of one alone over that of all."""
    rows = [(line, builder.shared(cells)) for line, cells in records]
    one: dict[tuple[str, str, str], float] = {}
    for line, row in rows:
        number, together = builder.value(row.get("copies", "")), builder.value(row.get("aggregate_throughput", ""))
        if number is None or together is None or number < 1 or number != int(number) or together <= 0:
            column = builder.recipe.columns["copies" if number is None or number < 1 else "aggregate_throughput"]
            builder.rejects.append((line, column, "isn't a number that copies can have"))
        elif number == 1:
            one[(name_of(row), row.get("gpu", ""), row.get("mechanism", ""))] = together
    bad = {line for line, *_ in builder.rejects}
    fallback: dict[tuple[str, str], float] = {}
    for (job, gpu, _), value in one.items():
        fallback.setdefault((job, gpu), value)
    for line, row in rows:
        if line in bad:
            continue
        count = int(builder.value(row["copies"]) or 0)
        job, gpu, mechanism = name_of(row) or "copy", row.get("gpu", ""), row.get("mechanism", "")
        named = {**row, "workload": job, "mechanism": {"plain": TIME_SLICING}.get(mechanism.casefold(), mechanism)}
        together = builder.value(row["aggregate_throughput"]) or 0.0
        if count == 1:
            builder.add_alone({**named, "corun_throughput": row["aggregate_throughput"]})
            continue
        alone = one.get((name_of(row), gpu, mechanism), fallback.get((name_of(row), gpu)))
        solo = "" if alone is None else _written(alone, builder.decimals)
        member = {**named, "corun_throughput": _written(together / count, builder.decimals), "solo_throughput": solo}
        builder.add_run([(line, member)] * count)
    builder.notes.append("The copies' throughput together was split equally: each pays copies x one alone / together.")


def _only(row: _Row, *fields: str) -> _Row:
    """Return some fields of a row, as far as it has them."""
    return {field: row[field] for field in fields if field in row}


def _written(value: float, decimals: Decimals) -> str:
    return repr(value).replace(".", decimals.mark)


_EXPANDERS = {"job": _jobs, "partner": _partners, "set": _sets, "matrix": _matrix, "copies": _copies}


def readable(fields: Iterable[str]) -> str:
    """Say which fields a recipe fills, the number of a job left out."""
    return ", ".join(dict.fromkeys(name.split(".")[0] for name in fields))
