"""Renders a report as one HTML file that asks nothing of anybody: no request, no script but the ones named by hash."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.offline
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from analysis.charts.scale import SLOWDOWN
from analysis.charts.theme import on
from analysis.numbers import NO_VALUE, WORDS, format_value, shorten, significant, visible
from analysis.report.document import Cell, Figure, Matrix, ReportDocument, Table
from analysis.report.still import picture

#: Width of charts in pixels, which their texts are planned for. Paper has 688 (A4 with margins of 14 mm, at 96 dots an
#: inch); the style sheet scales charts down to that.
CHART_WIDTH = 900

#: A square matrix is cut into blocks of so many columns, the most that paper holds.
MATRIX_COLUMNS = 26

#: Above this a printed matrix helps nobody; it stays in the chart, the JSON and the CSV.
MATRIX_MOST = 80

#: Up to this many workloads the chart holds every number, and the table can stay folded.
_NUMBERS_IN_CHART = 26

#: Rows of a table that a page shows; the other forms of the report hold all.
ROWS_MOST = 500

_LABEL_MOST, _NAME_MOST, _CELL_MOST, _TEXT_MOST = 34, 72, 160, 600

#: Text up to this length stays on one line of a cell.
_SHORT = 18

#: With more columns than this, an interval stands below its figure.
_DENSE = 6

#: What the templates have to know to lay out a block.
_LOOK = {
    "words": WORDS,
    "dense": _DENSE,
    "matrix_most": MATRIX_MOST,
    "folded": _NUMBERS_IN_CHART,
    "rows_most": ROWS_MOST,
    "scale": SLOWDOWN.names,
}

_TEMPLATES = Path(__file__).parent / "templates"
_LINK = re.compile(r"<(?=[\s/]*a[\s/>])", re.IGNORECASE)


def to_html(document: ReportDocument, *, still: bool = False) -> str:
    """Render the report as one self-contained page.

    The same document gives the same bytes: nothing is taken from the clock, the machine or chance.

    Parameters
    ----------
    document : ReportDocument
        The report; names in it may be hostile.
    still : bool
        Draw charts as still pictures, for a reader that runs no script.

    Returns
    -------
    str
        HTML. plotly.js stands in it once, and not at all where there is no chart.
    """
    charts = [block for section in document.sections for block in section.blocks if isinstance(block, Figure)]
    loader = (_TEMPLATES / "charts.js").read_text(encoding="utf-8").strip()
    scripts = [plotly.offline.get_plotlyjs(), loader] if charts and not still else []
    return _environment().get_template("report.html.j2").render(
        report=document,
        policy=_policy(scripts),
        scripts=[Markup(script) for script in scripts],  # noqa: S704 - our own text, never a user's
        styles=Markup((_TEMPLATES / "report.css").read_text(encoding="utf-8") + _scale()),  # noqa: S704
        look={**_LOOK, "still": still},
    )  # fmt: skip


def _scale() -> str:
    """Give table cells the colours of the chart."""
    colours = SLOWDOWN.colours("light")
    return "".join(f".c{k} {{ background: {colour}; color: {on(colour)}; }}\n" for k, colour in enumerate(colours))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        name=lambda text: shorten(visible(str(text)), _NAME_MOST),
        label=lambda text: shorten(visible(str(text)), _LABEL_MOST),
        prose=lambda text: shorten(visible(str(text)), _TEXT_MOST),
        visible=visible,
        figure=_figure_json,
        picture=lambda figure: Markup(picture(figure.plotly)),  # noqa: S704 - its texts are escaped
        cells=_cells,
        parts=_parts,
    )
    return environment


def _policy(scripts: Sequence[str]) -> str:
    """Allow the scripts of this page by their hashes, inline styles, drawn images, and nothing else."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]
    allowed = " ".join(hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _figure_json(figure: Figure) -> Markup:
    """Write a figure so that no text of it can end the script element or begin a link."""
    layout = {**figure.plotly.get("layout", {}), "width": CHART_WIDTH, "autosize": False}
    chart = _without_links({"data": figure.plotly.get("data", []), "layout": layout})
    text = json.dumps(chart, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - escaped above; ASCII only


def _without_links(value: Any) -> Any:
    """Take the meaning out of links in chart texts, which plotly would make clickable."""
    if isinstance(value, str):
        return _LINK.sub("&lt;", value)
    if isinstance(value, Mapping):
        return {str(key): _without_links(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_links(item) for item in value]
    return value


class _Cell(NamedTuple):
    text: str
    interval: str
    figure: bool
    short: bool


def _cells(row: Sequence[Cell], table: Table) -> Iterator[_Cell]:
    position = {column.key: index for index, column in enumerate(table.columns)}
    for index, column in table.shown():
        text = format_value(row[index], column.kind)
        low = row[position[column.low]] if column.low in position else None
        high = row[position[column.high]] if column.high in position else None
        ends = f"{format_value(low, column.kind)} to {format_value(high, column.kind)}"
        known = low is not None and high is not None
        text = shorten(text, _TEXT_MOST if column.kind == "prose" else _CELL_MOST)
        figure = column.kind not in WORDS
        yield _Cell(text, ends if known else "", figure, not figure and len(text) <= _SHORT)


class _MatrixCell(NamedTuple):
    text: str
    style: str


class _MatrixPart(NamedTuple):
    first: int
    last: int
    rows: list[list[_MatrixCell]]


def _parts(matrix: Matrix) -> Iterator[_MatrixPart]:
    """Cut a matrix into blocks of columns that fit on paper."""
    n = len(matrix.workloads)
    for first in range(0, n, MATRIX_COLUMNS):
        last = min(first + MATRIX_COLUMNS, n)
        rows = [[_matrix_cell(matrix.slowdown[i][j], matrix.state[i][j]) for j in range(first, last)] for i in range(n)]
        yield _MatrixPart(first, last, rows)


def _matrix_cell(value: float | None, state: str) -> _MatrixCell:
    if state == "did_not_run":
        return _MatrixCell("✕", "dnr")
    if value is None:
        return _MatrixCell("·" if state == "not_measured" else NO_VALUE, "none")
    style = f"c{int(SLOWDOWN.classes(np.array([value]))[0])}"
    return _MatrixCell(significant(value), f"{style} flagged" if state == "flagged" else style)
