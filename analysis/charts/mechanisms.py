"""Sharing mechanisms side by side: one row each, one panel a figure, a dot for every set of jobs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.theme import BESIDE, emphasis, finish, full, ink, label
from analysis.numbers import NO_VALUE, significant

Floats = npt.NDArray[np.float64]

#: Panels: column, heading, and where doing nothing at all would stand.
PANELS = (
    ("together", "Time together, min<br>(100 = one after the other)", 100.0),
    ("antt", "ANTT, x", 1.0),
    ("fairness", "Fairness<br>(1 = all suffer alike)", 1.0),
    ("p99_inflation", "p99 inflation, x", 1.0),
)
_ROW, _HEAD = 46, 120


def mechanism_panels(table: pd.DataFrame, runs: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw the means of each mechanism as bars and the single sets as dots.

    Parameters
    ----------
    table : pd.DataFrame
        One row a mechanism: mechanism, setting, and the columns of `PANELS`; drawn from the top in this order.
    runs : pd.DataFrame
        The runs behind it: mechanism, setting, jobs, and the same columns.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        Panels without a single value are left out.
    """
    pen = ink(theme)
    panels = [panel for panel in PANELS if table[panel[0]].notna().any()] or [PANELS[0]]
    keys = list(zip(table["mechanism"].astype(str), table["setting"].astype(str), strict=True))
    # Both lines of a label keep off the axis: the suffix of the ticks ends the second one only.
    labels = [
        f"{label(name)}\u00a0\u00a0<br><i>{label(setting, 46)}</i>" if setting else label(name)
        for name, setting in keys
    ]
    figure = make_subplots(1, len(panels), shared_yaxes=True, horizontal_spacing=0.03)
    for number, (column, heading, reference) in enumerate(panels, 1):
        values = table[column].to_numpy(dtype=float)
        dots = _dots(runs, keys, labels, column)
        reach = _reach(values, dots["value"].to_numpy(dtype=float), reference)
        figure.add_bar(
            y=labels, x=values, orientation="h", row=1, col=number, showlegend=False, hoverinfo="text",
            marker={"color": emphasis(theme), "opacity": 0.8},
            hovertext=[f"<b>{name}</b><br>mean {significant(v)}" for name, v in zip(labels, values, strict=True)],
        )  # fmt: skip
        _mark(figure, dots, reach, number, pen.text)
        figure.add_vline(x=reference, line={"color": pen.muted, "dash": "dash", "width": 1.2}, row=1, col=number)
        figure.add_scatter(
            y=labels, x=np.full(len(labels), reach * 1.34), mode="text", textposition="middle left", row=1, col=number,
            text=_figures(values, table, column), showlegend=False,
            hoverinfo="skip", textfont={"color": pen.text},
        )  # fmt: skip
        figure.update_xaxes(title={"text": heading}, range=[0, reach * 1.35], nticks=5, row=1, col=number)
    figure.update_yaxes(autorange="reversed", ticksuffix="  ")
    figure.update_layout(margin={"t": 12})
    alt = f"{len(table)} sharing mechanisms over {runs['jobs'].nunique()} sets of jobs"
    if len(table):
        alt += f"; the largest STP under {table.iloc[0]['mechanism']}: {significant(float(table.iloc[0]['stp']))}"
    return finish(figure, alt=f"{alt}.", theme=theme, height=_HEAD + _ROW * max(len(table), 1))


def _figures(values: Floats, table: pd.DataFrame, column: str) -> list[str]:
    """Return what stands at the bars' ends; without a p99 it says in how many sets a server can't keep up."""
    lost = table["overloaded"].to_numpy(dtype=int) if "overloaded" in table else np.zeros(len(table), dtype=int)
    words = []
    for value, failed, sets in zip(values, lost, table.get("sets", lost), strict=True):
        if column == "p99_inflation" and failed:
            words.append(f"<b>∞</b><br>{failed} of {sets}")
        else:
            words.append(f"<b>{significant(value)}</b>" if np.isfinite(value) else NO_VALUE)
    return words


def _dots(runs: pd.DataFrame, keys: list[tuple[str, str]], labels: list[str], column: str) -> pd.DataFrame:
    """Return the single sets of a panel: label, value, jobs; none where there is only one, which is the bar itself."""
    places = dict(zip(keys, labels, strict=True))
    named = [places.get((str(m), str(s)), "") for m, s in zip(runs["mechanism"], runs["setting"], strict=True)]
    shown = runs.assign(label=named, value=runs[column])[["label", "value", "jobs"]].dropna(subset=["value"])
    shown = shown[shown["label"] != ""]
    return shown if shown["jobs"].nunique() > 1 else shown.iloc[:0]


def _reach(means: Floats, dots: Floats, reference: float) -> float:
    """Return how far an axis goes: beyond all means and most dots; a single far one must not squeeze the rest."""
    known = means[np.isfinite(means)]
    most = max([reference, *(1.1 * known)])
    return float(max(most, min(dots.max(), 1.8 * most))) if len(dots) else float(most)


def _mark(figure: go.Figure, dots: pd.DataFrame, reach: float, number: int, colour: str) -> None:
    """Draw a dot for every set; beyond the axis it becomes an arrow at its end."""
    if dots.empty:
        return
    far = dots["value"] > reach
    figure.add_scatter(
        y=dots["label"], x=dots["value"].clip(upper=reach), mode="markers", row=1, col=number, showlegend=False,
        hoverinfo="text", cliponaxis=False,
        marker={
            "size": 7, "color": BESIDE, "line": {"color": colour, "width": 1}, "opacity": 0.9,
            "symbol": ["triangle-right" if one else "circle" for one in far],
        },
        hovertext=[
            f"<b>{'<br>beside '.join(full(job) for job in jobs)}</b><br>{significant(float(value))}"
            for jobs, value in zip(dots["jobs"], dots["value"], strict=True)
        ],
    )  # fmt: skip
