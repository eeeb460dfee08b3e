"""Scales with fixed steps, so that a colour means the same on every page and GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from analysis.numbers import significant


@dataclass(frozen=True)
class Scale:
    """Classes of a value, each with a colour on light and on dark.

    Attributes
    ----------
    title : str
        What the value is.
    unit : str
        Behind a printed value, such as `` x``.
    edges : tuple of float
        Steps between the classes; n edges make n + 1 classes, and a value on an edge belongs above it.
    light, dark : tuple of str
        One colour a class.
    names : tuple of str
        One legend text a class.
    """

    title: str
    unit: str
    edges: tuple[float, ...]
    light: tuple[str, ...]
    dark: tuple[str, ...]
    names: tuple[str, ...]

    def colours(self, theme: str) -> tuple[str, ...]:
        """Return the colours for a background."""
        return self.dark if theme == "dark" else self.light

    def classes(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the class of each value, NaN for NaN."""
        numbers = np.asarray(values, dtype=float)
        result: npt.NDArray[np.float64] = np.digitize(numbers, self.edges).astype(float)
        result[np.isnan(numbers)] = np.nan
        return result

    def colour(self, value: float, theme: str) -> str:
        """Return the colour of one value."""
        return self.colours(theme)[int(self.classes(np.array([value]))[0])]

    def steps(self, theme: str) -> list[tuple[float, str]]:
        """Return plotly's colour scale with hard steps, for class numbers from -0.5 to n - 0.5."""
        colours = self.colours(theme)
        count = len(colours)
        return [(edge / count, colour) for place, colour in enumerate(colours) for edge in (place, place + 1)]

    def print(self, value: float) -> str:
        """Print a value with its unit."""
        return "–" if np.isnan(value) else f"{significant(value)}{self.unit}"


# Light to dark on a light page, dark to light on a dark one, so that a heavy loss always stands out of the page. Below
# 1 the solo baseline is doubtful: a hue of its own, not the good end of the scale.
_HEAT_LIGHT = ("#FFF3D6", "#FDDC9A", "#FBB45C", "#EE7F3B", "#C8462F", "#7A1420")
_HEAT_DARK = ("#33291B", "#5E4319", "#95601A", "#CF8127", "#F3AE5B", "#FFE3AE")
_ODD_LIGHT, _ODD_DARK = "#D4CCEA", "#4B4270"

SLOWDOWN = Scale(
    "slowdown S",
    " x",
    (1.0, 1.05, 1.2, 1.5, 2.0, 3.0),
    (_ODD_LIGHT, *_HEAT_LIGHT),
    (_ODD_DARK, *_HEAT_DARK),
    ("below 1: doubtful", "up to 1.05", "1.05 to 1.2", "1.2 to 1.5", "1.5 to 2", "2 to 3", "3 and more"),
)

_COOL_LIGHT = ("#EFF4F9", "#D3E3F0", "#A9CBE2", "#72ABD0", "#3C82B4", "#0E4F80")
_COOL_DARK = ("#1B2733", "#22405A", "#2A5F87", "#3E84B5", "#7CB3D9", "#CFE6F7")

STP = Scale(
    "STP",
    "",
    (1.0, 1.1, 1.25, 1.4, 1.6),
    ("#F3D9C5", *_COOL_LIGHT[1:]),
    ("#5A3B22", *_COOL_DARK[1:]),
    ("below 1: slower than in turn", "1 to 1.1", "1.1 to 1.25", "1.25 to 1.4", "1.4 to 1.6", "1.6 and more"),
)

TOGETHER = Scale(
    "time together, one after the other = 100",
    "",
    (60.0, 70.0, 80.0, 90.0, 100.0),
    (*_COOL_LIGHT[:0:-1], "#F3D9C5"),
    (*_COOL_DARK[:0:-1], "#5A3B22"),
    ("below 60", "60 to 70", "70 to 80", "80 to 90", "90 to 100", "100 and more: slower than in turn"),
)

FAIRNESS = Scale(
    "fairness",
    "",
    (0.3, 0.5, 0.7, 0.85, 0.95),
    _COOL_LIGHT,
    _COOL_DARK,
    ("below 0.3", "0.3 to 0.5", "0.5 to 0.7", "0.7 to 0.85", "0.85 to 0.95", "0.95 to 1"),
)

#: Predicted against measured, percent; under-prediction is the dangerous side.
DIFFERENCE = Scale(
    "predicted against measured",
    " %",
    (-20.0, -10.0, -5.0, 5.0, 10.0, 20.0),
    ("#A63603", "#E6813F", "#F8CFA8", "#EEF0F2", "#BCD9EC", "#6BAED6", "#20639B"),
    ("#FF9D5C", "#B8622B", "#5E3A22", "#28313A", "#23425C", "#3578A8", "#8CC4EA"),
    ("20 % and more too low", "10 to 20 % too low", "5 to 10 % too low", "within 5 %", "5 to 10 % too high",
     "10 to 20 % too high", "20 % and more too high"),
)  # fmt: skip

SHARE = Scale(
    "share of warp cycles",
    " %",
    (1.0, 5.0, 10.0, 20.0, 40.0, 60.0),
    ("#F4F5F7", "#E1E5EC", "#C3CBDA", "#9AA7C0", "#6B7BA0", "#42527A", "#1E2A4D"),
    ("#161C22", "#222B38", "#33415A", "#4C5F82", "#7386AC", "#A3B2D0", "#DCE4F3"),
    ("below 1 %", "1 to 5 %", "5 to 10 %", "10 to 20 %", "20 to 40 %", "40 to 60 %", "60 % and more"),
)

SCALES = {
    "slowdown": SLOWDOWN,
    "p99": replace(SLOWDOWN, title="p99 inflation"),
    "antt": replace(SLOWDOWN, title="ANTT"),
    "stp": STP,
    "together": TOGETHER,
    "fairness": FAIRNESS,
    "jain": replace(FAIRNESS, title="Jain's index"),
    "worst": replace(SLOWDOWN, title="worst S of the pair"),
    "difference": DIFFERENCE,
}
