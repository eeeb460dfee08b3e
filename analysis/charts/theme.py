"""How every chart looks: colours of reason groups, one plotly template for light and one for dark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Literal

import plotly.graph_objects as go

from analysis.numbers import shorten, visible
from analysis.reference import stall_reasons

Mode = Literal["light", "dark"]

#: Okabe and Ito's palette for things that have no colour of their own, in an order that keeps neighbours apart.
CATEGORIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#7F7F7F")

#: The colour of what a chart compares with, and of what is worse; never green and red.
BESIDE, WORSE = "#9AA5B1", "#D55E00"


@dataclass(frozen=True)
class Ink:
    """Colours of text and lines on one background.

    Attributes
    ----------
    text, muted, line, grid, surface : str
        Text; secondary text and marks; axis lines; grid lines; the page behind the chart.
    """

    text: str
    muted: str
    line: str
    grid: str
    surface: str


_INKS: dict[str, Ink] = {
    "light": Ink("#16202A", "#55616D", "#8A949E", "#E3E7EB", "#FFFFFF"),
    "dark": Ink("#E8EDF2", "#A3B0BC", "#6D7A86", "#2A343E", "#0F151B"),
}


def ink(theme: str) -> Ink:
    """Return the colours of text and lines; anything but ``dark`` is light."""
    return _INKS["dark" if theme == "dark" else "light"]


def emphasis(theme: str) -> str:
    """Return the one colour of what a chart is about; on dark a lighter blue, which is easier to see there."""
    return "#56B4E9" if theme == "dark" else "#0072B2"


def categories(theme: str) -> tuple[str, ...]:
    """Return colours for things that have none of their own, the easiest to see first."""
    return (CATEGORIES[4], *CATEGORIES[1:4], CATEGORIES[0], *CATEGORIES[5:]) if theme == "dark" else CATEGORIES


@lru_cache(maxsize=2)
def template(theme: str) -> go.layout.Template:
    """Return the template that all charts share."""
    pen = ink(theme)
    axis = {
        "color": pen.text,
        "gridcolor": pen.grid,
        "linecolor": pen.line,
        "zerolinecolor": pen.line,
        "zerolinewidth": 1,
        "ticks": "",
        "title": {"font": {"size": 13, "color": pen.muted}, "standoff": 8},
        "automargin": True,
        "fixedrange": True,
    }
    return go.layout.Template(
        layout={
            "font": {"family": "Source Sans, Source Sans Pro, system-ui, sans-serif", "size": 13, "color": pen.text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": list(categories(theme)),
            "margin": {"l": 8, "r": 16, "t": 48, "b": 8},
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "font": {"size": 12}},
            "hoverlabel": {
                "bgcolor": pen.surface,
                "bordercolor": pen.line,
                "font": {"color": pen.text, "size": 13},
                "align": "left",
                "namelength": -1,
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": pen.line, "activecolor": pen.text},
            "bargap": 0.28,
        }
    )


def finish(figure: go.Figure, *, alt: str, theme: str, height: int) -> go.Figure:
    """Give a figure its template, its height and its alternative text; every chart ends with this.

    Parameters
    ----------
    figure : go.Figure
        The drawn figure.
    alt : str
        What the chart shows, for those who can't see it.
    theme : {"light", "dark"}
        The background it stands on.
    height : int
        Pixels.
    """
    figure.update_layout(template=template(theme), height=height, meta={"alt": alt})
    return figure


def alt_text(figure: go.Figure) -> str:
    """Return what a chart shows in plain text."""
    meta = figure.layout.meta
    return str(meta["alt"]) if meta and "alt" in meta else ""


def label(name: object, most: int = 34) -> str:
    """Make a name fit for an axis: cut in the middle, invisible characters shown, nothing in it markup."""
    return _harmless(shorten(visible(str(name)), most))


def full(name: object, most: int = 300, line: int = 90) -> str:
    """Make a name fit for hover text: nearly all of it, broken into lines, nothing in it markup."""
    text = shorten(visible(str(name)), most)
    return "<br>".join(_harmless(text[start : start + line]) for start in range(0, len(text), line)) or "–"


def _harmless(text: str) -> str:
    # Plotly reads tags in texts, and sets what stands between dollar signs as mathematics where MathJax is loaded.
    # It knows no entity for a quotation mark and would show one as it is written.
    return escape(text, quote=False).replace("$", "&#36;")


def unique_labels(names: list[str], most: int = 34) -> list[str]:
    """Make axis labels that stay distinct: equal ones would fall on one place of a category axis.

    Where cutting makes names alike, what all of them begin with is cut first.
    """
    labels = [label(name, most) for name in names]
    common = _shared_start(names)
    if len(set(labels)) < len(set(names)) and common > 3:
        labels = [label(f"…{name[common:]}", most) for name in names]
    seen: dict[str, int] = {}
    for position, text in enumerate(labels):
        seen[text] = seen.get(text, 0) + 1
        if seen[text] > 1:
            labels[position] = f"{text} ({seen[text]})"
    return labels


def _shared_start(names: list[str]) -> int:
    """Return how many characters all names begin with; the first and the last in order differ earliest."""
    first, last = min(names, default=""), max(names, default="")
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def group_colour(group: str) -> str:
    """Return the colour of a group of stall reasons; that of ``other`` for an unknown one."""
    colours = {entry.name: entry.colour for entry in stall_reasons.groups()}
    return colours.get(group, colours["other"])


@lru_cache(maxsize=256)
def reason_colour(reason: str) -> str:
    """Return a reason's shade of its group's colour: the group's own for its first reason, lighter for each next."""
    if reason == "selected":
        return mix(group_colour("issue"), "#FFFFFF", 0.55)
    for group in stall_reasons.groups():
        if reason in group.reasons:
            place = [name for name in group.reasons if name != "selected"].index(reason)
            return mix(group.colour, "#FFFFFF", min(0.3 * place, 0.7))
    return group_colour(stall_reasons.group_of(reason))


@lru_cache(maxsize=256)
def reason_title(reason: str) -> str:
    """Return a reason in words, such as ``Long scoreboard``."""
    table = stall_reasons.load()
    return str(table.at[reason, "title"]) if reason in table.index else reason.replace("_", " ").capitalize()


def mix(colour: str, other: str, amount: float) -> str:
    """Mix two hex colours: 0 is the first, 1 the second."""
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * amount):02X}" for a, b in pairs)


def on(colour: str) -> str:
    """Return the ink, near black or white, that reads best on a colour (WCAG relative luminance)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#FFFFFF" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.0605 else "#16202A"
