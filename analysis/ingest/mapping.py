"""Mapping by hand: which column of a table that no format claims fills which field of an own table."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from analysis.errors import InputRefusedError, NotFoundError, StallScopeError, UsageError, Where
from analysis.ingest.contract.format import Format, Hints, Opened
from analysis.ingest.formats.own.columns import CORUN_COLUMNS, PROFILE_COLUMNS, Column, plain
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.profiles import OwnProfiles
from analysis.ingest.formats.own.reading import header as header_of
from analysis.ingest.formats.own.reading import is_parquet, read_sheet_of
from analysis.ingest.formats.own.shaped import ShapedCoruns, proposal
from analysis.ingest.formats.own.shapes import EXTRA_COLUMNS, Recipe, Shape
from analysis.ingest.text.decimals import Decimals, decide
from analysis.ingest.text.delimited import Sheet
from analysis.store.database import Database
from analysis.store.parsed import Parsed
from analysis.store.possible import sift
from analysis.store.queries import mappings as stored

Kind = Literal["own-coruns", "own-profiles"]
FIELDS: Map[Kind, tuple[Column, ...]] = {"own-coruns": CORUN_COLUMNS, "own-profiles": PROFILE_COLUMNS}
#: What a row must say somehow, each by one of these fields.
REQUIRED: Map[Kind, tuple[tuple[str, ...], ...]] = {
    "own-coruns": (
        ("run_id",),
        ("workload", "model"),
        ("slowdown", "corun_throughput", "corun_time", "outcome"),
    ),
    "own-profiles": (("workload", "model"),),
}
#: The same for co-runs of other shapes than a row a job; in a set each job has fields of its own, such as slowdown.1.
_MEASURED = ("slowdown", "corun_throughput", "corun_time", "corun_share", "corun_share_percent", "slowdown_percent",
             "loss_percent")  # fmt: skip
REQUIRED_BY_SHAPE: Map[Shape, tuple[tuple[str, ...], ...]] = {
    "job": (("run_id",), ("workload", "model"), (*_MEASURED, "outcome")),
    "partner": (("workload", "model"), _MEASURED),
    "set": (("workload.1", "model.1", "jobs"), ("workload.2", "model.2", "jobs"), _MEASURED),
    "matrix": (("workload",),),
    "copies": (("copies",), ("aggregate_throughput",)),
}
#: Fields that a table of some shape may have beside those of the own table.
EXTRA = {column.name: column for column in EXTRA_COLUMNS}
SHOWN = 10


class TableMapping(BaseModel):
    """A decision of the user about tables with one header.

    Attributes
    ----------
    name : str
        Under which it is saved.
    kind : {"own-coruns", "own-profiles"}
        The own table that it fills.
    header : list of str
        Columns of the table.
    columns : dict of str to str
        Field of the own table -> column of the file.
    constants : dict of str to str
        Field -> what every row has, for what the file doesn't say, such as the mechanism.
    metrics : list of str
        Profiles: columns to take as metrics under their own names.
    shape : str
        Co-runs: what a row is, one of `analysis.ingest.formats.own.shapes.SHAPES`.
    beside : dict of str to str
        Matrix: column -> the job beside.
    measure : str
        Matrix: what its cells are, such as ``slowdown``.
    across, varies, factors
        Columns that differ by a setting alone, and columns in another unit: see
        `analysis.ingest.formats.own.shapes.Recipe`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    kind: Kind
    header: list[str] = Field(min_length=1)
    columns: dict[str, str]
    constants: dict[str, str] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=list)
    shape: Shape = "job"
    beside: dict[str, str] = Field(default_factory=dict)
    measure: str = "slowdown"
    across: dict[str, tuple[str, str]] = Field(default_factory=dict)
    varies: str = "mechanism"
    factors: dict[str, float] = Field(default_factory=dict)

    @property
    def recipe(self) -> Recipe:
        """The mapping as a recipe for `analysis.ingest.formats.own.shapes.expand`."""
        fixed = {field: text.strip() for field, text in self.constants.items() if text.strip()}
        return Recipe(
            self.shape, self.columns, fixed, self.beside, self.measure, self.across, self.varies, self.factors
        )

    def problems(self) -> list[str]:
        """Return what keeps the mapping from being used, a sentence each."""
        fields = {column.name for column in FIELDS[self.kind]}
        needed = REQUIRED[self.kind]
        if self.kind == "own-coruns":
            fields |= set(EXTRA)
            needed = REQUIRED_BY_SHAPE[self.shape]
        given = set(self.columns) | {field for field, text in self.constants.items() if text.strip()}
        given |= {field for field, _ in self.across.values()}
        out = [f"There is no field {field!r} in the table." for field in sorted(given)
               if (field.split(".")[0] if self.shape == "set" else field) not in fields]  # fmt: skip
        there = set(self.header)
        wrong = sorted(
            {
                column
                for column in (*self.columns.values(), *self.metrics, *self.beside, *self.across, *self.factors)
                if column not in there
            }
        )
        out += [f"The file has no column {column!r}." for column in wrong]
        out += [f"{field!r} is filled twice." for field in sorted(set(self.columns) & set(self.constants))]
        plain_names = given | {field.split(".")[0] for field in given if self.shape == "set"}
        lacking = [names for names in needed if not set(names) & plain_names]
        if self.shape == "matrix" and len(self.beside) < 2:
            out.append("A matrix has a column for each job beside.")
        out += [f"Nothing fills {' or '.join(names)}." for names in lacking]
        return out

    def fits(self, header: Sequence[str]) -> bool:
        """Say whether a table with this header is one that the mapping was made for."""
        return list(header) == self.header


class _Mapped:
    """Reads a table through a mapping, and then as the own table that it fills."""

    def __init__(self, mapping: TableMapping) -> None:
        self.mapping = mapping

    def sheet(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Read the file, name the mapped columns as the fields, and leave the others out."""
        sheet = read_sheet_of(opened)
        mapping = self.mapping
        if not mapping.fits(sheet.header):
            raise InputRefusedError(
                f"the mapping {mapping.name!r} is for other columns", "Map this table anew.", Where(opened.name)
            )
        taken = {field: sheet.cells[column] for field, column in mapping.columns.items()}
        fixed = {field: text.strip() for field, text in mapping.constants.items() if text.strip()}
        metrics = {column: sheet.cells[column] for column in mapping.metrics}
        count = len(sheet.cells)
        cells = pd.DataFrame(
            {**taken, **{field: [text] * count for field, text in fixed.items()}, **metrics},
            index=sheet.cells.index,
            dtype=object,
        )
        mapped = replace(sheet, header=tuple(cells.columns), cells=cells)
        kinds = {column.name: column.kind for column in FIELDS[mapping.kind]}
        numeric = [*(field for field in taken if kinds[field] != "text"), *metrics]
        texts = {cell: None for name in numeric for cell in cells[name]}
        decimals = (
            Decimals(".", "numbers are stored as numbers") if is_parquet(opened) else decide(texts, sheet.delimiter)
        )
        return mapped, decimals, {**mapping.columns, **{field: f"always {text}" for field, text in fixed.items()}}

    def told(self, parsed: Parsed) -> Parsed:
        """Add to the report which mapping was used and which columns it leaves out."""
        mapping = self.mapping
        used = {*mapping.columns.values(), *mapping.metrics, *mapping.beside, *mapping.across}
        left = [column for column in mapping.header if column not in used]
        note = f"The columns were read by the mapping {mapping.name!r}"
        note += f"; it leaves out {', '.join(left[:6])}." if left else "."
        report = {**parsed.report, "mapping": mapping.name, "columns_not_read": left}
        return replace(parsed, report=report, warnings=(note, *parsed.warnings))


class MappedCoruns(OwnCoruns):
    """A table of co-runs whose columns the user named."""

    def __init__(self, mapping: TableMapping) -> None:
        self._mapped = _Mapped(mapping)
        self.title = f"Table of co-runs, by the mapping {mapping.name!r}"

    def read(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Read the text cells through the mapping."""
        return self._mapped.sheet(opened)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file as `OwnCoruns` does; the report names the mapping."""
        return self._mapped.told(super().parse(opened, hints))


class MappedProfiles(OwnProfiles):
    """A table of profiles whose columns the user named."""

    def __init__(self, mapping: TableMapping) -> None:
        self._mapped = _Mapped(mapping)
        self.title = f"Table of profiles, by the mapping {mapping.name!r}"

    def read(self, opened: Opened) -> tuple[Sheet, Decimals, dict[str, str]]:
        """Read the text cells through the mapping."""
        return self._mapped.sheet(opened)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file as `OwnProfiles` does; the report names the mapping."""
        return self._mapped.told(super().parse(opened, hints))


class MappedShape(ShapedCoruns):
    """A table of co-runs in another shape than a row a job, whose columns the user named."""

    name = "own-coruns"

    def __init__(self, mapping: TableMapping) -> None:
        super().__init__(mapping.recipe)
        self._mapped = _Mapped(mapping)
        self.title = f"Table of co-runs, by the mapping {mapping.name!r}"

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file as `ShapedCoruns` does; the report names the mapping.

        Raises
        ------
        InputRefusedError
            If the table has other columns.
        """
        if not self._mapped.mapping.fits(header_of(opened)):
            raise InputRefusedError(
                f"the mapping {self._mapped.mapping.name!r} is for other columns", "Map this table anew.",
                Where(opened.name),
            )  # fmt: skip
        return self._mapped.told(super().parse(opened, hints))


def format_of(mapping: TableMapping) -> Format:
    """Return the format that reads through a mapping.

    Raises
    ------
    UsageError
        If the mapping can't be used.
    """
    problems = mapping.problems()
    if problems:
        raise UsageError(f"the mapping {mapping.name!r} can't be used: {' '.join(problems)}", "Map the table anew.")
    # Rows a job in the own table's fields are read as that table is, which is the faster way.
    plain_rows = mapping.shape == "job" and not mapping.across and not set(mapping.columns) & set(EXTRA)
    if mapping.kind == "own-coruns" and not plain_rows:
        return MappedShape(mapping)
    return MappedCoruns(mapping) if mapping.kind == "own-coruns" else MappedProfiles(mapping)


def suggest(header: Sequence[str], kind: Kind) -> dict[str, str]:
    """Return fields whose column is plain from its name."""
    fields = {column.name for column in FIELDS[kind]}
    out: dict[str, str] = {}
    for column in header:
        if plain(column) in fields:
            out.setdefault(plain(column), column)
    return out


def proposed(opened: Opened, name: str) -> TableMapping | None:
    """Return the mapping that a table's columns and cells propose; None where they tell nothing."""
    recipe = proposal(opened)
    if recipe is None:
        return None
    return TableMapping(
        name=name, kind="own-coruns", header=list(header_of(opened)), columns=dict(recipe.columns),
        constants=dict(recipe.constants), shape=recipe.shape, beside=dict(recipe.beside), measure=recipe.measure,
        across=dict(recipe.across), varies=recipe.varies, factors=dict(recipe.factors),
    )  # fmt: skip


def preview_rows(opened: Opened, mapping: TableMapping, hints: Hints) -> tuple[pd.DataFrame, Parsed]:
    """Read a file through a mapping without loading it, and return the first rows as they would load.

    Returns
    -------
    pd.DataFrame
        At most ten rows: members of co-runs with their run, or kernels and figures of workloads.
    Parsed
        The whole file, with its rejects.

    Raises
    ------
    StallScopeError
        If nothing can be used.
    """
    parsed = sift(format_of(mapping).parse(opened, hints))
    frames = {name: frame for name, frame in parsed.frames.items() if isinstance(frame, pd.DataFrame)}
    if mapping.kind == "own-coruns" and "run" in frames:
        runs = frames["run"][["run", "external_id", "gpu", "mechanism"]]
        table = runs.merge(frames["member"].head(SHOWN), on="run", how="right").drop(columns="run")
    elif len(frames.get("kernel", ())):
        table = frames["kernel"].drop(columns="launch")
    else:
        both = [frames[name] for name in ("solo", "feature") if len(frames.get(name, ()))]
        table = pd.concat(both, ignore_index=True)
    return table.head(SHOWN).dropna(axis=1, how="all").reset_index(drop=True), parsed


def save(database: Database, mapping: TableMapping) -> None:
    """Save a mapping under its name; a table with the same header is then read through it.

    Raises
    ------
    UsageError
        If it can't be used.
    """
    format_of(mapping)
    content = mapping.model_dump(exclude={"name", "kind", "header"})
    stored.put(database, mapping.name, mapping.kind, mapping.header, content)


def saved(database: Database) -> list[TableMapping]:
    """Return the saved mappings, in the order of names."""
    return [TableMapping.model_validate(row) for row in stored.rows(database)]


def named(database: Database, name: str) -> TableMapping:
    """Return a saved mapping.

    Raises
    ------
    NotFoundError
        If there is none of this name.
    """
    for mapping in saved(database):
        if mapping.name == name:
            return mapping
    raise NotFoundError(f"there is no mapping {name!r}", "`stallscope mappings list` names those that are saved.")


def choose_mapped(opened: Opened, mappings: Sequence[TableMapping], error: StallScopeError) -> Format:
    """Return the format for a file that no format claims: the mapping that has its header, else the shape it shows.

    Raises
    ------
    StallScopeError
        The given one, where no mapping fits and its columns tell no shape of co-runs.
    """
    names = header_of(opened)
    for mapping in mappings:
        if mapping.fits(names):
            return format_of(mapping)
    recipe = proposal(opened)
    if recipe is not None:
        return ShapedCoruns(recipe)
    raise error
