"""Charts as still pictures, for readers that run no script: bars and points of plotly JSON drawn as SVG."""

from __future__ import annotations

import base64
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from typing import Any

import numpy as np

from analysis.charts.theme import CATEGORIES
from analysis.numbers import shorten, significant, visible

INK, SOFT, GRID = "#16202a", "#52606d", "#e3e7eb"
#: Characters of a label.
LABEL = 46
#: A colour as plotly writes it; anything else is drawn grey.
_COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}|rgba?\([\d., %]+\)")


def colours_of(trace: Mapping[str, Any], count: int, number: int) -> list[str]:
    """Return the colour of each mark of a trace."""
    usual = CATEGORIES[number % len(CATEGORIES)]
    given = trace.get("marker", {}).get("color")
    values = given if isinstance(given, list | tuple) else [given] * max(count, 1)
    return [colour_of(values[place % len(values)] if len(values) else None, usual) for place in range(max(count, 1))]


def colour_of(value: Any, usual: str) -> str:
    """Return a colour as it stands where it is one, else the usual."""
    return value if isinstance(value, str) and _COLOUR.fullmatch(value) else usual


def values_of(value: Any) -> list[Any]:
    """Return an array of plotly JSON as a list, packed ones unpacked."""
    if isinstance(value, Mapping) and "bdata" in value:
        found = np.frombuffer(base64.b64decode(str(value["bdata"])), dtype=np.dtype(str(value["dtype"])))
        return [None if isinstance(one, float) and math.isnan(one) else one for one in found.tolist()]
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def title(layout: Mapping[str, Any]) -> str:
    """Return the title of an axis."""
    title = layout.get("title")
    return str(title.get("text") or "") if isinstance(title, Mapping) else str(title or "")


def short(value: Any) -> str:
    """Return a tick's number as people write it."""
    return significant(float(value)) if isinstance(value, int | float) else str(value)


def plain(text: str, limit: int) -> str:
    """Take plotly's own markup out of a text, and cut it."""
    return shorten(visible(unescape(re.sub(r"</?(?:b|i|br|span|sub|sup)\b[^>]*>", " ", text)).strip()), limit)


def draw_text(x: float, y: float, text: str, anchor: str, colour: str = INK, limit: int = LABEL) -> str:
    """Return a text, escaped and cut."""
    shown = escape(plain(text, limit))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{shown}</text>'


def draw_line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, dash: str = "") -> str:
    """Return a line."""
    broken = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"'
        f"{broken}/>"
    )


_WIDTH, _RIGHT, _TOP, _BOTTOM = 900.0, 60.0, 46.0, 54.0
#: Room for the labels of the vertical axis, at least and at most, and what a character of them takes.
_LEAST_LEFT, _MOST_LEFT, _CHARACTER = 70.0, 350.0, 7.6
_MOST_MARKS = 6000


def picture(chart: Mapping[str, Any]) -> str:
    """Return a chart as SVG; empty where it is of a sort that can't be drawn here (heat maps, several panels).

    Parameters
    ----------
    chart : mapping
        ``data`` and ``layout`` of plotly; every text in it is escaped.

    Returns
    -------
    str
        An ``svg`` element without scripts, links or references.
    """
    traces = [trace for trace in chart.get("data", []) if trace.get("visible", True) is True]
    layout = chart.get("layout", {})
    kinds = {str(trace.get("type", "scatter")) for trace in traces}
    panels = {str(trace.get(name, name[0])) for trace in traces for name in ("xaxis", "yaxis")}
    if not traces or kinds - {"bar", "scatter", "scattergl"} or panels - {"x", "y"}:
        return ""
    height = float(layout.get("height") or 400)
    y = _Axis(layout.get("yaxis", {}), [values_of(t.get("y")) for t in traces], height - _BOTTOM, _TOP)
    widest = max((len(plain(text, LABEL)) for _, text in y.ticks()), default=0)
    left = min(max(16 + _CHARACTER * widest, _LEAST_LEFT), _MOST_LEFT)
    x = _Axis(layout.get("xaxis", {}), [values_of(t.get("x")) for t in traces], left, _WIDTH - _RIGHT)
    bars = [trace for trace in traces if trace.get("type") == "bar"]
    if bars:
        values = x if bars[0].get("orientation") == "h" else y
        values.widen(_ends(bars, layout))
    parts = [*_frame(x, y, height), *_bars(bars, layout, x, y)]
    parts += [part for trace in traces if trace.get("type") != "bar" for part in _points(trace, x, y)]
    parts += _notes(layout.get("annotations", []), x, y)
    parts += _legend(traces, left)
    inside = "".join(parts[:_MOST_MARKS])
    return (
        f'<svg class="still" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" width="100%" role="presentation" '
        f'font-family="sans-serif" font-size="12">{inside}</svg>'
    )


class _Axis:
    """One axis: from values, numbers or categories, to places in the picture."""

    def __init__(self, layout: Mapping[str, Any], values: Sequence[Sequence[Any]], start: float, end: float) -> None:
        self.layout, self.start, self.end = layout, start, end
        every = [value for part in values for value in part if value is not None]
        self.named = layout.get("type") == "category" or any(isinstance(value, str) for value in every)
        self.log = layout.get("type") == "log"
        self.names = list(dict.fromkeys([*map(str, values_of(layout.get("categoryarray"))), *map(str, every)]))
        numbers = [self._number(value) for value in every] if not self.named else []
        given = [value for value in values_of(layout.get("range")) if isinstance(value, int | float)]
        known = [value for value in numbers if math.isfinite(value)] or [0.0, 1.0]
        self.fixed = len(given) == 2
        self.low, self.high = (float(given[0]), float(given[1])) if self.fixed else (min(known), max(known))
        if not self.fixed and layout.get("rangemode") == "tozero" and not self.log:
            self.low = min(self.low, 0.0)
        if self.named:
            self.low, self.high = -0.5, len(self.names) - 0.5
            if layout.get("autorange") == "reversed":
                self.low, self.high = self.high, self.low
        elif self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5

    def widen(self, values: Sequence[float]) -> None:
        """Make room for the ends of bars."""
        if not self.named and not self.fixed:
            ends = [self._number(value) for value in values]
            self.low, self.high = min([self.low, *ends]), max([self.high, *ends])

    def _number(self, value: Any) -> float:
        number = float(value) if isinstance(value, int | float) else math.nan
        if not self.log:
            return number
        return math.log10(number) if number > 0 else math.nan

    def at(self, value: Any) -> float:
        """Return where a value stands."""
        if self.named:
            place = float(self.names.index(str(value))) if str(value) in self.names else math.nan
        else:
            place = self._number(value)
        return self.start + (place - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return places and words of the ticks."""
        if self.layout.get("tickvals") is not None:
            given = values_of(self.layout["tickvals"])
            texts = values_of(self.layout.get("ticktext")) or [short(number) for number in given]
            found = list(zip(given, texts, strict=False))
            return [(self.at(value), str(text)) for value, text in found]
        if self.named:
            every = max(1, len(self.names) // 60)
            return [(self.at(name), name) for name in self.names[::every]]
        low, high = sorted((self.low, self.high))
        step = 10 ** math.floor(math.log10((high - low) / 4)) if high > low else 1.0
        step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 7), 10)
        numbers = np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step
        values = [10**number if self.log else number for number in numbers.tolist()]
        return [(self.at(value), short(value)) for value in values]


def _frame(x: _Axis, y: _Axis, height: float) -> list[str]:
    parts, left = [], x.start
    for place, text in x.ticks():
        if left - 1 <= place <= _WIDTH - _RIGHT + 1:
            parts.append(draw_line(place, _TOP, place, height - _BOTTOM, GRID))
            parts.append(draw_text(place, height - _BOTTOM + 16, text, "middle", limit=14))
    for place, text in y.ticks():
        if _TOP - 1 <= place <= height - _BOTTOM + 1:
            if not y.named:
                parts.append(draw_line(left, place, _WIDTH - _RIGHT, place, GRID))
            parts.append(draw_text(left - 8, place + 4, text, "end"))
    titles = [title(axis.layout) for axis in (x, y)]
    if titles[0]:
        parts.append(draw_text((left + _WIDTH - _RIGHT) / 2, height - 14, titles[0], "middle", SOFT, 90))
    if titles[1]:
        parts.append(draw_text(left, _TOP - 12, titles[1], "start", SOFT, 60))
    return parts


def _ends(bars: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> list[float]:
    return [end for _, _, start, stop, _ in _rectangles(bars, layout) for end in (start, stop)]


def _rectangles(
    bars: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]
) -> list[tuple[bool, Any, float, float, str]]:
    """Return each bar: whether it lies, its name, its ends, its colour; stacked where the layout says so."""
    reached: dict[tuple[str, bool], float] = {}
    found = []
    for number, trace in enumerate(bars):
        lies = trace.get("orientation") == "h"
        lengths, names = values_of(trace.get("x" if lies else "y")), values_of(trace.get("y" if lies else "x"))
        bases, colours = values_of(trace.get("base")), colours_of(trace, len(lengths), number)
        for place, (length, name) in enumerate(zip(lengths, names, strict=False)):
            if not isinstance(length, int | float) or not math.isfinite(length):
                continue
            start = float(bases[place % len(bases)]) if bases else 0.0
            if layout.get("barmode") in ("stack", "relative"):
                key = (str(name), length < 0)
                start = reached.get(key, 0.0)
                reached[key] = start + length
            found.append((lies, name, start, start + length, colours[place]))
    return found


def _bars(bars: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], x: _Axis, y: _Axis) -> list[str]:
    parts = []
    groups = max(len(x.names if bars and bars[0].get("orientation") != "h" else y.names), 1)
    room = abs((x.end - x.start) if bars and bars[0].get("orientation") != "h" else (y.end - y.start)) / groups
    thick = max(min(room * 0.65, 30.0), 2.0)
    for lies, name, start, stop, colour in _rectangles(bars, layout):
        along, across = (x, y) if lies else (y, x)
        ends, middle = sorted((along.at(start), along.at(stop))), across.at(name)
        if not all(map(math.isfinite, (*ends, middle))):
            continue
        first, long = ends[0], max(ends[1] - ends[0], 0.5)
        box = (first, middle - thick / 2, long, thick) if lies else (middle - thick / 2, first, thick, long)
        parts.append(
            f'<rect x="{box[0]:.1f}" y="{box[1]:.1f}" width="{box[2]:.1f}" height="{box[3]:.1f}" fill="{colour}"/>'
        )
    for trace in bars:
        parts += _whiskers(trace, x, y)
    return parts


def _points(trace: Mapping[str, Any], x: _Axis, y: _Axis) -> list[str]:
    mode, parts = str(trace.get("mode", "lines")), []
    places = [
        (x.at(a), y.at(b)) if a is not None and b is not None else (math.nan, math.nan)
        for a, b in zip(values_of(trace.get("x")), values_of(trace.get("y")), strict=False)
    ]
    line = trace.get("line", {})
    colour = colour_of(line.get("color"), SOFT)
    if "lines" in mode:
        for (x1, y1), (x2, y2) in itertools.pairwise(places):
            if all(map(math.isfinite, (x1, y1, x2, y2))):
                parts.append(draw_line(x1, y1, x2, y2, colour, 1.2, "4 3" if line.get("dash") else ""))
    if "markers" in mode:
        colours = colours_of(trace, len(places), 0)
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{fill}" fill-opacity="0.8"/>'
            for (a, b), fill in zip(places, colours, strict=True)
            if math.isfinite(a) and math.isfinite(b)
        ]
        parts += _whiskers(trace, x, y)
    if "text" in mode:
        texts = values_of(trace.get("text"))
        for (a, b), text in zip(places, texts, strict=False):
            if math.isfinite(a) and math.isfinite(b) and text:
                parts.append(draw_text(a + 8, b + 4, str(text), "start", limit=30))
    return parts


def _whiskers(trace: Mapping[str, Any], x: _Axis, y: _Axis) -> list[str]:
    bar = trace.get("error_x") or {}
    more, less = values_of(bar.get("array")), values_of(bar.get("arrayminus"))
    parts = []
    for place, (a, b) in enumerate(zip(values_of(trace.get("x")), values_of(trace.get("y")), strict=False)):
        if place < len(more) and isinstance(a, int | float) and isinstance(more[place], int | float):
            down = less[place] if place < len(less) and isinstance(less[place], int | float) else more[place]
            ends = x.at(a - down), x.at(a + more[place])
            if all(map(math.isfinite, ends)):
                parts.append(draw_line(ends[0], y.at(b), ends[1], y.at(b), INK, 1.5))
    return parts


def _notes(notes: Sequence[Mapping[str, Any]], x: _Axis, y: _Axis) -> list[str]:
    parts = []
    for note in notes:
        if note.get("xref", "x") == "x" and note.get("yref", "y") == "y" and note.get("text"):
            place = x.at(note.get("x")), y.at(note.get("y"))
            if all(map(math.isfinite, place)):
                parts.append(draw_text(place[0] + 6, place[1] + 4, str(note["text"]), "start", limit=40))
    return parts


def _legend(traces: Sequence[Mapping[str, Any]], left: float) -> list[str]:
    named: dict[str, str] = {}
    for number, trace in enumerate(traces):
        if trace.get("name") and trace.get("showlegend", True) is not False:
            named.setdefault(str(trace["name"]), _key(trace, number))
    if len(named) < 2:
        return []
    parts, at = [], left
    for name, colour in named.items():
        text = plain(name, 26)
        if at + 7 * len(text) + 20 > _WIDTH:
            break
        parts.append(f'<rect x="{at:.0f}" y="4" width="10" height="10" fill="{colour}"/>')
        parts.append(draw_text(at + 14, 13, text, "start", SOFT))
        at += 7 * len(text) + 28
    return parts


def _key(trace: Mapping[str, Any], number: int) -> str:
    """Return the colour that a trace has in the legend: of its line where it is one, else of its marks."""
    if trace.get("type") != "bar" and "markers" not in str(trace.get("mode", "lines")):
        return colour_of(trace.get("line", {}).get("color"), SOFT)
    return colours_of(trace, 1, number)[0]
