"""A line the size of a word: how a figure moved of late, as a picture of a few hundred bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from analysis.charts.theme import emphasis, ink

_WIDTH, _HEIGHT, _EDGE = 240.0, 36.0, 2.0


def sparkline(points: Sequence[float | None], theme: str) -> str:
    """Draw points at equal distances as an SVG document; where one is missing the line is broken.

    Parameters
    ----------
    points : sequence of float or None
        The newest last.
    theme : {"light", "dark"}
        The background it stands on.
    """
    known = [point for point in points if point is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    step = _WIDTH / max(len(points) - 1, 1)
    pieces: list[list[str]] = [[]]
    for place, point in enumerate(points):
        if point is None:
            pieces.append([])
            continue
        share = 0.5 if high == low else (point - low) / (high - low)
        pieces[-1].append(f"{place * step:.1f},{_HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE):.1f}")
    lines = "".join(
        f'<polyline points="{" ".join(piece)}" fill="none" stroke="{emphasis(theme)}" stroke-width="1.6" '
        'vector-effect="non-scaling-stroke"/>'
        for piece in pieces
        if piece
    )
    base = (
        f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH:g}" y2="{_HEIGHT}" stroke="{ink(theme).grid}" stroke-width="1" '
        'vector-effect="non-scaling-stroke"/>'
    )
    size = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" preserveAspectRatio="none"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{base}{lines}</svg>'


def as_image(points: Sequence[float | None], what: str, unit: str, theme: str) -> str:
    """Return the sparkline as an HTML image that says in words what it shows.

    Parameters
    ----------
    points : sequence of float or None
        The newest last.
    what, unit : str
        What the figure is, and its unit.
    theme : {"light", "dark"}
        The background it stands on.
    """
    known = [point for point in points if point is not None]
    if not known:
        alt = f"{what}: not told"
    else:
        alt = f"{what} over the last {len(points)} looks: {min(known):,.4g} to {max(known):,.4g} {unit}".rstrip()
    data = base64.b64encode(sparkline(points, theme).encode()).decode()
    style = f"width:100%;height:{_HEIGHT:g}px;display:block"
    return f'<img alt="{escape(alt, quote=True)}" style="{style}" src="data:image/svg+xml;base64,{data}">'
