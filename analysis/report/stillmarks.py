"""The strokes of a still chart: texts, lines and colours of plotly JSON as SVG, with every text escaped."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
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


def colours(trace: Mapping[str, Any], count: int, number: int) -> list[str]:
    """Return the colour of each mark of a trace."""
    usual = CATEGORIES[number % len(CATEGORIES)]
    given = trace.get("marker", {}).get("color")
    values = given if isinstance(given, list | tuple) else [given] * max(count, 1)
    return [colour(values[place % len(values)] if len(values) else None, usual) for place in range(max(count, 1))]


def colour(value: Any, usual: str) -> str:
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


def text(x: float, y: float, text: str, anchor: str, colour: str = INK, limit: int = LABEL) -> str:
    """Return a text, escaped and cut."""
    shown = escape(plain(text, limit))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{shown}</text>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0, dash: str = "") -> str:
    """Return a line."""
    broken = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"'
        f"{broken}/>"
    )
