"""Shapes of co-run tables: how the rows of other people's tables become rows of the own co-run table.

A recipe says which column fills which field, in one of five shapes; `expand` applies it. The rows that come out are
checked as those of the own table are, so that one checker serves every shape.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
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
    Column("partner", "text", "Jobs that ran beside, such as `bert` or `with bert and gpt2`; `none` or blank is a row "
                              "of the job alone."),
    Column("jobs", "text", "All jobs of the co-run in one cell, such as `bert+resnet`."),
    Column("corun_share", "number", "Speed during the co-run as a share of the speed alone, up to 1.", above=0),
    Column("corun_share_percent", "number", "The same in percent, up to 100.", above=0),
    Column("slowdown_percent", "number", "How much longer the job takes than alone, in percent.", above=-100),
    Column("loss_percent", "number", "How much of its speed alone the job loses, in percent.", most=100),
    Column("alone", "text", "Whether the row is of the job alone: a word such as `isolated`, `solo` or `shared`."),
    Column("repeat", "text", "Repetition: rows of one run and one repetition ran together."),
    Column("copies", "integer", "How many equal copies ran together; 1 is a row of one alone.", least=1),
    Column("aggregate_throughput", "number", "Throughput of all copies together.", above=0),
)  # fmt: skip

#: Name of the job beside, where a table measured a co-run and names only one of its jobs.
UNNAMED = "unnamed partner"
UNKNOWN_GPU = "unknown"

#: Cells that stand for no partner.
NOBODY = frozenset({
    "", "-", "--", "none", "no", "nobody", "alone", "solo", "isolated", "isolation", "baseline", "exclusive", "nan",
    "n/a", "na", "null", "nil", "idle", "/", "standalone", "dedicated", "single", "unshared", "(none)", "no partner",
})  # fmt: skip
#: Cells that say that the job was not alone.
TOGETHER = frozenset({
    "together", "shared", "sharing", "colocated", "co-located", "collocated", "corun", "co-run", "co-running", "paired",
    "concurrent", "packed", "both", "contended", "mixed", "pair", "multi", "coloc",
})  # fmt: skip

_SHARES = ("corun_share", "corun_share_percent", "slowdown_percent", "loss_percent")
_MEASURES = ("corun_throughput", "corun_time", "slowdown", *_SHARES)
_OWN = {column.name for column in CORUN_COLUMNS}
_NUMERIC = {column.name for column in (*CORUN_COLUMNS, *EXTRA_COLUMNS) if column.kind != "text"}
BETWEEN = re.compile(r"\s*(?:\+|;|\||&|,|/|\bwith\b|\bvs\.?(?=\s)|\band\b)\s*", re.IGNORECASE)
_BESIDE = re.compile(r"^(?:with|beside|alongside|next to|vs\.?|and|\+|&)\s*(?=\S)", re.IGNORECASE)
_NUMBER = r"[+-]?\d[\d.,]*?(?:[eE][+-]?\d+)?"
_BOTH = re.compile(rf"[(\[]?\s*({_NUMBER})\s*[x%]?\s*(?:/|;|\||,\s)\s*({_NUMBER})\s*[x%]?\s*[)\]]?")


def names_in(text: str) -> list[str]:
    """Return the names that one cell lists, brackets and quotation marks taken off.

    Examples
    --------
    >>> names_in("['bert', 'gpt2']")
    ['bert', 'gpt2']
    >>> names_in("bert + gpt2")
    ['bert', 'gpt2']
    """
    bare = text.strip()
    listed = bare[:1] in "[({" and bare[-1:] in "])}" and len(bare) > 1
    parts = bare[1:-1].split(",") if listed and "," in bare else BETWEEN.split(bare.strip("[](){} "))
    return [part for raw in parts if (part := raw.strip().strip("'\"").strip())]


def partners_in(text: str, known: Set[str]) -> list[str]:
    """Return the jobs that a cell names as beside: one, or several where each is a job of the table.

    Examples
    --------
    >>> partners_in("with a and b/c", {"a", "b/c"})
    ['a', 'b/c']
    >>> partners_in("x/y", {"a"})
    ['x/y']
    """
    bare = text.strip()
    bare = bare if bare in known else _BESIDE.sub("", bare)
    if bare in known:
        return [bare]
    for split in (re.split(r"\s*(?:\+|;|&|,|\band\b)\s*", bare), names_in(bare)):
        parts = [part for part in split if part]
        if len(parts) > 1 and all(part in known for part in parts):
            return parts
    return [bare]


def both_in(text: str) -> tuple[str, str] | None:
    """Return the two numbers of a cell that holds both sides of a pair, such as ``1.30 / 1.65``."""
    found = _BOTH.fullmatch(text.strip())
    return (found[1], found[2]) if found else None


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
    across : mapping of str to pair of str
        Column -> (field that it fills, setting), where columns differ by the setting alone: ``throughput under MPS``
        and ``throughput, time slicing``. Each setting makes rows of its own.
    varies : str
        The field that the settings of ``across`` fill, such as ``mechanism``.
    factors : mapping of str to float
        Column -> what its numbers are multiplied by, where columns of one measure state different units.
    notes : tuple of str
        What was guessed, a sentence each.
    """

    shape: Shape
    columns: Mapping[str, str]
    constants: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    measure: str = "slowdown"
    across: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    varies: str = "mechanism"
    factors: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> list[str]:
        """Columns of the file that are read."""
        return list(dict.fromkeys([*self.columns.values(), *self.beside, *self.across]))

    def numeric(self) -> list[str]:
        """Columns of the file that hold numbers."""
        named = [column for key, column in self.columns.items() if key.split(".")[0] in _NUMERIC]
        melted = [column for column, (key, _) in self.across.items() if key in _NUMERIC]
        return list(dict.fromkeys([*named, *self.beside, *melted]))


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
        given = next((key for key in _SHARES if row.get(key)), None)
        if given is not None and not out.get("slowdown"):
            slowdown = as_slowdown(given, self.value(row[given]))
            # What is no number, or none that a slowdown follows from, is rejected by the one checker, with its text.
            out["slowdown"] = row[given] if slowdown is None else repr(slowdown)
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
        repeat = members[0][1].get("repeat")
        name = name or f"line {members[0][0]}" + (f", {repeat}" if repeat else "")
        for slot, (line, row) in enumerate(members):
            own = self.member(row)
            own["run_id"] = name
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


def as_slowdown(field_: str, value: float | None) -> float | None:
    """Return the slowdown that a share of the speed alone, or a percentage, stands for; None where it is none.

    Examples
    --------
    >>> as_slowdown("corun_share", 0.8), as_slowdown("slowdown_percent", 35.0), as_slowdown("loss_percent", 20.0)
    (1.25, 1.35, 1.25)
    """
    if value is None:
        return None
    share = {"corun_share": value, "corun_share_percent": value / 100, "loss_percent": 1 - value / 100}.get(field_)
    if share is None:
        return 1 + value / 100 if value > -100 else None
    return 1 / share if share > 0 else None


def is_zero_run(row: Mapping[str, str], value: object) -> bool:
    """Say whether a row states a throughput of zero and nothing else: the job did not run."""
    number = value(row.get("corun_throughput", "")) if callable(value) else None
    return number == 0 and not row.get("slowdown") and not row.get("corun_time")


def is_alone(row: Mapping[str, str]) -> bool:
    """Say whether a row states in words that its job was alone."""
    if "alone" in row:
        return row["alone"].casefold() in NOBODY
    return bool(row.get("mechanism")) and row["mechanism"].casefold() in NOBODY


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
    records: _Records = [
        (int(str(line)), {str(name): str(cell) for name, cell in zip(sheet.cells.columns, row, strict=True)})
        for line, row in zip(sheet.cells.index, sheet.cells.itertuples(index=False, name=None), strict=True)
    ]
    if recipe.factors:
        records = [(line, _multiplied(cells, recipe.factors, decimals)) for line, cells in records]
    rejects: list[tuple[int, str | None, str]] = []
    if recipe.across:
        records, recipe, rejects = _melted(records, recipe, decimals)
    builder = _Builder(sheet, recipe, decimals)
    builder.rejects += rejects
    _EXPANDERS[recipe.shape](builder, records)
    return builder.done(gpu)


_Records = Sequence[tuple[int, Mapping[str, str]]]


def _multiplied(cells: Mapping[str, str], factors: Mapping[str, float], decimals: Decimals) -> dict[str, str]:
    """Return cells with the numbers of some columns in another unit."""
    out = dict(cells)
    for name, factor in factors.items():
        number = decimals.number(cells[name]) if cells[name] else None
        if number is not None:
            out[name] = _written(number * factor, decimals)
    return out


def _melted(
    records: _Records, recipe: Recipe, decimals: Decimals
) -> tuple[_Records, Recipe, list[tuple[int, str | None, str]]]:
    """Make a row of every line and setting that it has a value for; a value that is no number costs the line."""
    settings = list(dict.fromkeys(setting for _, setting in recipe.across.values()))
    made: dict[str, dict[str, str]] = {}
    for column, (key, setting) in recipe.across.items():
        made.setdefault(key, {})[setting] = column
    written = {key: " / ".join(by.values()) for key, by in made.items()}
    measured = {column for column, (key, _) in recipe.across.items() if key in _NUMERIC}
    rejects: list[tuple[int, str | None, str]] = []
    out: list[tuple[int, Mapping[str, str]]] = []
    for line, cells in records:
        faults = [
            column for column in measured
            if cells[column] and cells[column].casefold() not in NOBODY and decimals.number(cells[column]) is None
        ]  # fmt: skip
        if faults:
            rejects += [(line, column, "isn't a number") for column in faults]
            continue
        count = len(out)
        for setting in settings:
            own = {written[key]: cells[by[setting]] if setting in by else "" for key, by in made.items()}
            own = {name: "" if text.casefold() in NOBODY else text for name, text in own.items()}
            if any(own.values()):
                out.append((line, {**cells, **own, f"\0{recipe.varies}": setting}))
        if len(out) == count:
            rejects.append((line, next(iter(recipe.across)), "has no value"))
    columns = {**recipe.columns, **written, recipe.varies: f"\0{recipe.varies}"}
    return out, replace(recipe, columns=columns, across={}), rejects


def _jobs(builder: _Builder, records: _Records) -> None:
    """Rows of one run number on one GPU and mechanism are a run; a number that stands once is a job alone."""
    runs: dict[tuple[str, str, str, str], list[tuple[int, _Row]]] = {}
    for line, cells in records:
        row = builder.shared(cells)
        if is_alone(row):
            if not builder.add_alone(row):
                builder.rejects.append((line, None, "is of a job alone and has no value"))
            continue
        key = (row.get("run_id", ""), row.get("gpu", ""), row.get("mechanism", ""), row.get("repeat", ""))
        runs.setdefault(key, []).append((line, row))
    for (name, _, _, repeat), members in runs.items():
        if len(members) == 1 and builder.add_alone(members[0][1]) and not members[0][1].get("solo_throughput"):
            continue
        builder.add_run(members, f"{name}, {repeat}" if name and repeat else name or None)


def _partners(builder: _Builder, records: _Records) -> None:
    """A row of a job beside others meets the rows of those others; who has no row is in the run without a value."""
    open_runs: dict[tuple[object, ...], list[list[tuple[int, _Row]]]] = defaultdict(list)
    runs: list[tuple[list[str], list[tuple[int, _Row]]]] = []
    named = "partner" in builder.recipe.columns or "partner" in builder.recipe.constants
    others = builder.recipe.constants.get("partner", UNNAMED)
    rows = [(line, builder.shared(cells)) for line, cells in records]
    known = {name_of(row) for _, row in rows}
    for line, row in rows:
        row.setdefault("workload", "")
        me = name_of(row)
        other = row.get("partner", "") if named else others
        if other.casefold() in NOBODY or is_alone(row):
            if not builder.add_alone(row):
                builder.rejects.append(
                    (line, builder.recipe.columns.get("partner"), "names no partner, and no value alone")
                )
            continue
        if not me:
            builder.rejects.append((line, builder.recipe.columns.get("workload"), "is empty"))
            continue
        names = [me, *partners_in(other, known)]
        setting = tuple(row.get(key, "") for key in ("gpu", "mechanism", "run_id", "repeat"))
        waiting = open_runs[(*sorted(names), setting)]
        # The first run of the same jobs that still lacks this one's row.
        for members in waiting:
            if sum(name_of(there) == me for _, there in members) < names.count(me):
                members.append((line, row))
                break
        else:
            members = [(line, row)]
            waiting.append(members)
            runs.append((names, members))
        if len(members) == len(names):
            waiting.remove(members)
    single = 0
    for names, members in runs:
        line, row = members[0]
        kept: _Row = _only(row, "gpu", "mechanism")
        missing = list(names)
        for _, there in members:
            missing.remove(name_of(there))
        single += any(name != name_of(row) for name in missing)
        # A job beside a copy of itself: both are the job, and what the row says holds for either.
        filled = [(line, dict(row) if name == name_of(row) else {**kept, "workload": name}) for name in missing]
        builder.add_run([*members, *filled])
    if single:
        builder.notes.append(
            f"In {single:,} {'run' if single == 1 else 'runs'} not every job was measured: the others are loaded "
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
        names = names_in(shared.get("jobs", "")) if listed else []
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
        if is_alone(shared) and members:
            if sum(builder.add_alone(row) for _, row in members) < len(members):
                builder.rejects.append((line, None, "is of jobs alone and lacks their values"))
            continue
        if len(members) >= 2:
            builder.add_run(members, shared.get("run_id") or None)
        elif members and builder.add_alone(members[0][1]):
            continue
        else:
            builder.rejects.append((line, None, "names fewer than two jobs"))


def _listed(text: str, place: int, count: int) -> str:
    """Return one job's value of a cell that lists those of all."""
    bare = text.strip("[](){} ")
    parts = re.split(r"\s*[;|+/]\s*|\s*,\s+|\s+", bare)
    if len(parts) != count:
        parts = bare.split(",")
    return parts[place].strip().strip("'\"") if len(parts) == count else text


def _matrix(builder: _Builder, records: _Records) -> None:
    """Cell (row, column) is the row's job beside the column's; a table may hold a matrix for each GPU or mechanism."""
    named = [builder.recipe.columns[key] for key in ("gpu", "mechanism") if key in builder.recipe.columns]
    blocks: dict[tuple[str, ...], list[tuple[int, Mapping[str, str]]]] = {}
    for line, cells in records:
        blocks.setdefault(tuple(cells[name] for name in named), []).append((line, cells))
    for setting, block in blocks.items():
        _one_matrix(builder, block, ", ".join(filter(None, setting)) if len(blocks) > 1 else "")


def _one_matrix(builder: _Builder, records: _Records, setting: str) -> None:
    """Add the runs of one matrix: both cells of a pair make one."""
    recipe, made = builder.recipe, len(builder.rows)
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
    lost_beside: dict[str, tuple[str, str]] = {}

    def cell(job: str, beside: str, *, second: bool = False) -> tuple[int, _Row] | None:
        if job not in rows or beside not in column:
            # The other half of a cell that holds both sides.
            return None if second else other_half(job, beside)
        line, cells = rows[job]
        text = cells[column[beside]]
        sides = both_in(text)
        text = sides[1 if second else 0] if sides else text
        if text.casefold() in NOBODY:
            return None if second else other_half(job, beside)
        if second and sides is None:
            return None
        number = builder.value(text)
        slowdown = as_slowdown(recipe.measure, number) if recipe.measure in _SHARES else number
        if slowdown is None or slowdown <= 0:
            bad.add(line)
            builder.rejects.append((line, column[beside], f"{text!r} is no {recipe.measure.replace('_', ' ')}"))
            return None
        shared = {key: cells[at] for key, at in recipe.columns.items() if key not in ("workload", *alone)}
        own = {key: cells[at] for key, at in alone.items()} if not second else {}
        return line, {**recipe.constants, **shared, **own, "workload": beside if second else job, recipe.measure: text}

    def other_half(job: str, beside: str) -> tuple[int, _Row] | None:
        return cell(beside, job, second=True)

    names = list(dict.fromkeys([*rows, *column]))
    for place, first in enumerate(names):
        for second in names[place:]:
            one = cell(first, second)
            two = (cell(first, first, second=True) or one) if first == second else cell(second, first)
            at = one or two
            if at is None:
                continue
            bare = _only(at[1], "gpu", "mechanism", "unit")
            one = one or (at[0], {**bare, "workload": first})
            two = two or (at[0], {**bare, "workload": second})
            builder.add_run([one, two], f"{first} and {second}" + (f", {setting}" if setting else ""))
            lost_beside[builder.rows[-1][1]["run_id"]] = (first, second)
    # A line is loaded or rejected as a whole: the row of a bad cell leaves, its partners' rows stay.
    if bad:
        kept = [(line, row) for line, row in builder.rows[made:] if line not in bad]
        counts = Counter(row["run_id"] for _, row in kept)
        for line, row in [*kept]:
            if counts[row["run_id"]] == 1:
                lost = lost_beside[row["run_id"]][1 - int(row["slot"])]
                own = _only(row, "run_id", "gpu", "mechanism")
                kept.append((line, {**own, "slot": str(1 - int(row["slot"])), "workload": lost, "outcome": "ran"}))
        builder.rows[made:] = kept
    seen = {line for line, _ in builder.rows} | {line for line, *_ in builder.rejects}
    # The last row of a triangle has names alone: its values stand in the other rows.
    named = {row["workload"] for _, row in builder.rows[made:] if row.get(recipe.measure) or row.get("slowdown")}
    for line, cells in records:
        if line not in seen and cells[name] not in named:
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
