"""The one typed document behind every report: what is said, shown and tabulated, before any rendering.

The document is also the JSON report. It holds raw values, never formatted ones, and everything that a rendering needs,
so that the same JSON gives the same HTML on any machine with the same version of StallScope and of plotly.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from analysis.numbers import UNITS, Kind

SCHEMA_VERSION = "1"

Provenance: TypeAlias = Literal["measured", "simulated", "measured and simulated"]


def _known(value: Any) -> Any:
    """Make NaN and infinities None: JSON would turn them into null anyway, and then the renderings would differ."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


Cell: TypeAlias = Annotated[bool | int | float | str | None, BeforeValidator(_known)]
Value: TypeAlias = Annotated[float | None, BeforeValidator(_known)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Column(_Part):
    """A column of a table.

    Attributes
    ----------
    key : str
        Machine name.
    label : str
        Header, without the unit.
    kind : str
        How its cells are printed; see `analysis.numbers.format_value`.
    low, high : str, optional
        Keys of the columns that hold the ends of its interval; a page prints them beside the figure.
    """

    key: str
    label: str
    kind: Kind = "text"
    low: str | None = None
    high: str | None = None

    @property
    def header(self) -> str:
        """The label with its unit."""
        unit = UNITS[self.kind]
        return f"{self.label} ({unit})" if unit else self.label


class Text(_Part):
    """Sentences, each a paragraph of its own."""

    type: Literal["text"] = "text"
    sentences: tuple[str, ...]


class Heading(_Part):
    """A heading inside a section."""

    type: Literal["heading"] = "heading"
    title: str


class Notice(_Part):
    """Something the reader must not miss."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    sentence: str


class Table(_Part):
    """Rows of raw values.

    Attributes
    ----------
    title : str
        What the table answers.
    columns : tuple of Column
        What stands in each row.
    rows : tuple of tuple
        The cells; None is no value.
    caption : str
        Protocol, intervals, and how many runs and sources stand behind the figures.
    strong : tuple of int
        Rows that the reader should find first, counted from 0.
    """

    type: Literal["table"] = "table"
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    strong: tuple[int, ...] = ()

    def shown(self) -> list[tuple[int, Column]]:
        """Return what stands on a page, with its position in the rows.

        The ends of an interval stand beside their figure and have no column of their own; a column without any value
        has none either.
        """
        ends = {key for column in self.columns for key in (column.low, column.high) if key}
        return [
            (index, column)
            for index, column in enumerate(self.columns)
            if column.key not in ends and (not self.rows or any(row[index] is not None for row in self.rows))
        ]

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of the table {self.title!r} has not one cell for each column")
        return self


class Matrix(_Part):
    """A slowdown matrix: the row is slowed, the column slows it.

    Attributes
    ----------
    title, gpu, mechanism : str
        What it is of.
    workloads : tuple of str
        Names, n of them.
    slowdown, low, high, stp : tuple of tuple of float or None
        n x n; None is no value. ``low`` and ``high`` span the repeats.
    state : tuple of tuple of str
        ``measured``, ``not_measured``, ``did_not_run`` or ``flagged``, n x n.
    runs : tuple of tuple of int
        Runs behind each cell.
    caption : str
        What it rests on.
    """

    type: Literal["matrix"] = "matrix"
    title: str
    gpu: str
    mechanism: str
    workloads: tuple[str, ...]
    slowdown: tuple[tuple[Value, ...], ...]
    low: tuple[tuple[Value, ...], ...]
    high: tuple[tuple[Value, ...], ...]
    stp: tuple[tuple[Value, ...], ...]
    state: tuple[tuple[str, ...], ...]
    runs: tuple[tuple[int, ...], ...]
    caption: str = ""

    @model_validator(mode="after")
    def _square(self) -> Self:
        n = len(self.workloads)
        for name in ("slowdown", "low", "high", "stp", "state", "runs"):
            rows = getattr(self, name)
            if len(rows) != n or any(len(row) != n for row in rows):
                raise ValueError(f"{name} of the matrix {self.title!r} is not {n} x {n}")
        return self


class Figure(_Part):
    """A chart as plotly JSON.

    Attributes
    ----------
    title : str
        What the chart answers.
    alternative : str
        What a reader who can't see it must know.
    plotly : dict
        ``data`` and ``layout`` as `plotly.graph_objects.Figure.to_json` gives them.
    """

    type: Literal["figure"] = "figure"
    title: str
    alternative: str
    plotly: dict[str, Any]


Block: TypeAlias = Annotated[Text | Heading | Notice | Table | Matrix | Figure, Field(discriminator="type")]


class Section(_Part):
    """A heading and what stands under it."""

    key: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    blocks: tuple[Block, ...]


class Source(_Part):
    """A file that the figures come from."""

    file: str
    dataset: str
    format: str
    sha256: str
    rows_read: int
    rows_loaded: int
    rows_rejected: int
    simulated: bool
    licence: str | None = None
    citation: str | None = None


class ReportDocument(_Part):
    """A report.

    Attributes
    ----------
    schema_version : str
        Version of this layout.
    kind : str
        What it reports on.
    title, subtitle : str
        Headline, and the one line under it.
    created_at : datetime
        When it was made, in UTC.
    provenance : str
        Whether the figures were measured or simulated; shown next to the title.
    summary : tuple of str
        The answer in sentences, before any chart.
    filters : tuple of str
        What was chosen, as sentences.
    sections : tuple of Section
        The body.
    sources : tuple of Source
        The files behind it.
    software : dict
        Name and version of what computed it.
    reproduce : tuple of str
        Commands that make the same figures again.
    """

    schema_version: Literal["1"] = "1"
    kind: Literal["data set", "prediction", "comparison", "model", "stalls", "placement", "witness"]
    title: str
    subtitle: str = ""
    created_at: datetime
    provenance: Provenance
    summary: tuple[str, ...]
    filters: tuple[str, ...]
    sections: tuple[Section, ...]
    sources: tuple[Source, ...]
    software: dict[str, str]
    reproduce: tuple[str, ...]
