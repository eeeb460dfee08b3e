"""Why a prediction is what it is: contributions in log S, read as factors, for one job and for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import CATEGORIES, WORSE, categories, emphasis, finish, full, ink, label, unique_labels
from analysis.numbers import shorten, significant, visible

_ROW = 30

#: A contribution that changes the slowdown by less than this (in log S) is not drawn on its own.
_SMALLEST = 0.005


def waterfall(
    base: float,
    contributions: Sequence[Mapping[str, Any]],
    prediction: float,
    *,
    most: int = 12,
    start: str = "what is usual here",
    theme: str = "light",
) -> go.Figure:
    """Draw how the contributions lead from the base value to the prediction.

    Parameters
    ----------
    base, prediction : float
        In log S; base plus the sum of the contributions is the prediction.
    contributions : sequence of mapping
        feature, shap (in log S), and where known whose, group and value.
    most : int
        Contributions drawn one by one, the largest; the rest, and those below x 1.005, are one bar, so that the sum
        stays whole.
    start : str
        What the base is.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    ordered = sorted(contributions, key=lambda entry: -abs(float(entry["shap"])))
    shown = [entry for entry in ordered[:most] if abs(float(entry["shap"])) >= _SMALLEST]
    rest = ordered[len(shown) :]
    steps = [(_name(entry), float(entry["shap"]), _detail(entry)) for entry in shown]
    if rest:
        total = sum(float(entry["shap"]) for entry in rest)
        steps.append((f"{len(rest)} smaller ones", total, "together"))
    names = unique_labels([f"start: {start}", *[name for name, _, _ in steps], "prediction"], 52)
    edges = np.cumsum([base, *[step for _, step, _ in steps]])
    figure = go.Figure()
    for place, (_, step, detail) in enumerate(steps, start=1):
        figure.add_bar(
            y=[names[place]], x=[step], base=[edges[place - 1]], orientation="h", showlegend=False,
            marker={"color": WORSE if step > 0 else emphasis(theme)}, hoverinfo="text",
            hovertext=f"<b>{names[place]}</b><br>{detail}<br>x {np.exp(step):.3f} (log S {step:+.3f})",
        )  # fmt: skip
        figure.add_annotation(
            x=float(max(edges[place - 1], edges[place])), y=names[place], text=f"x {np.exp(step):.2f}", xanchor="left",
            showarrow=False, xshift=5, font={"size": 11, "color": pen.text},
        )  # fmt: skip
    xs: list[float | None] = []
    ys: list[str | None] = []
    for place in range(len(steps) + 1):
        xs += [float(edges[place]), float(edges[place]), None]
        ys += [names[place], names[place + 1], None]
    figure.add_scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"color": pen.line, "width": 1, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
    )
    for place, value in ((0, base), (len(names) - 1, prediction)):
        figure.add_scatter(
            x=[value], y=[names[place]], mode="markers+text", text=[f"  {np.exp(value):.2f} x"], showlegend=False,
            textposition="middle right", textfont={"size": 13, "color": pen.text},
            marker={"symbol": "line-ns", "size": 20, "line": {"width": 3, "color": pen.text}},
            hovertext=f"S = {np.exp(value):.3f}", hoverinfo="text",
        )  # fmt: skip
    low, high = float(min(edges.min(), prediction)), float(max(edges.max(), prediction))
    pad = 0.12 * max(high - low, 0.1)
    ticks = factor_ticks(float(np.exp(low - pad)), float(np.exp(high + 2 * pad)))
    figure.update_layout(
        xaxis={"range": [low - pad, high + 2 * pad], "tickvals": np.log(ticks), "ticktext": [f"{t:g}" for t in ticks],
               "title": {"text": "slowdown, x (steps multiply)"}, "zeroline": False},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": names, "showgrid": False},
        bargap=0.35, barmode="overlay", margin={"t": 16},
    )  # fmt: skip
    alt = _alt_waterfall(base, steps, prediction, start)
    return finish(figure, alt=alt, theme=theme, height=80 + _ROW * len(names))


def importance_bars(
    frame: pd.DataFrame, *, value: str = "mean_abs_shap", colour: str = "whose", most: int = 20, theme: str = "light"
) -> go.Figure:
    """Draw which features matter most over many predictions.

    Parameters
    ----------
    frame : pd.DataFrame
        feature, the column ``value`` (mean |SHAP| in log S) and, to colour by, the column ``colour``.
    value, colour : str
        Columns.
    most : int
        Features drawn.
    theme : {"light", "dark"}
        The background.
    """
    ordered = frame.sort_values(value, ascending=False, kind="stable").head(most)
    labels = unique_labels([str(name) for name in ordered["feature"]], 44)
    kinds = list(dict.fromkeys(str(k) for k in ordered[colour])) if colour in ordered else [""]
    figure = go.Figure()
    for place, kind in enumerate(sorted(kinds)):
        mask = (ordered[colour].astype(str) == kind).to_numpy() if kind else np.ones(len(ordered), dtype=bool)
        figure.add_bar(
            y=[text for text, chosen in zip(labels, mask, strict=True) if chosen],
            x=ordered.loc[mask, value].to_numpy(float),
            orientation="h",
            name=label(kind),
            showlegend=bool(kind) and len(kinds) > 1,
            marker={"color": categories(theme)[place % len(CATEGORIES)]},
            hovertext=[
                f"<b>{full(row['feature'])}</b><br>changes the slowdown by x {np.exp(row[value]):.3f} on average"
                for row in ordered[mask].to_dict("records")
            ],
            hoverinfo="text",
        )
    figure.update_layout(
        xaxis={"title": {"text": "mean |contribution| to log S"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        barmode="overlay",
    )
    parts = [
        f"{shorten(visible(str(r['feature'])), 60)} {significant(float(r[value]))}"
        for r in ordered.head(5).to_dict("records")
    ]
    alt = f"Bars of the mean absolute contribution of {len(ordered)} features. Largest: {'; '.join(parts)}."
    return finish(
        figure,
        alt=alt if len(ordered) else "No contributions to draw.",
        theme=theme,
        height=96 + 26 * max(len(ordered), 2),
    )


def beeswarm(
    frame: pd.DataFrame, *, features: Sequence[str] | None = None, most: int = 15, theme: str = "light"
) -> go.Figure:
    """Draw the contribution of each feature to each prediction as a swarm of points, coloured by the feature's value.

    Parameters
    ----------
    frame : pd.DataFrame
        feature, shap (log S), value (NaN: grey); one row a prediction and feature.
    features : sequence of str, optional
        Features to draw, in order; by default those with the largest mean |SHAP|.
    most : int
        Features drawn by default.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    sizes = frame["shap"].abs().groupby(frame["feature"]).mean().sort_values(ascending=False, kind="stable")
    names = [str(name) for name in (features or list(sizes.index[:most]))]
    labels = unique_labels(names, 40)
    figure = go.Figure()
    for place, name in enumerate(names):
        part = frame[frame["feature"] == name]
        values = part["value"].to_numpy(float)
        rank = pd.Series(values).rank(pct=True).to_numpy(float)
        shap = part["shap"].to_numpy(float)
        figure.add_trace(
            (go.Scattergl if len(frame) > 3000 else go.Scatter)(
                x=shap, y=place + _spread(shap), mode="markers", showlegend=False, hoverinfo="text",
                hovertext=[f"{labels[place]} = {significant(v) if v == v else '–'}: x {np.exp(s):.3f}"
                           for v, s in zip(values, shap, strict=True)],
                marker={"size": 5, "opacity": 0.75, "color": np.where(np.isnan(rank), 0.5, rank), "cmin": 0, "cmax": 1,
                        "colorscale": [[0, "#56B4E9"], [0.5, "#8A949E"], [1, "#D55E00"]], "showscale": place == 0,
                        "colorbar": {"title": {"text": "value", "side": "top"}, "tickvals": [0, 1], "thickness": 12,
                                     "ticktext": ["low", "high"], "len": 0.5}},
            )
        )  # fmt: skip
    figure.add_vline(x=0, line={"color": pen.line, "width": 1})
    figure.update_layout(
        xaxis={"title": {"text": "contribution to log S"}, "zeroline": False},
        yaxis={"tickvals": list(range(len(names))), "ticktext": labels, "range": [len(names) - 0.5, -0.5],
               "showgrid": False, "zeroline": False},
        margin={"t": 16},
    )  # fmt: skip
    largest = ", ".join(shorten(visible(name), 60) for name in names[:3])
    alt = f"Swarm of contributions of {len(names)} features over the predictions; largest on average: {largest}."
    return finish(figure, alt=alt, theme=theme, height=90 + 32 * max(len(names), 2))


def _spread(values: np.ndarray) -> np.ndarray:
    """Move points apart where many have nearly the same value; without chance, so a figure is always the same."""
    if len(values) < 2:
        return np.zeros(len(values))
    bins = np.digitize(values, np.linspace(values.min(), values.max(), 40))
    offset = np.zeros(len(values))
    for number in np.unique(bins):
        members = np.flatnonzero(bins == number)
        order = np.arange(len(members))
        offset[members] = np.where(order % 2, 1, -1) * (order + 1) // 2
    largest = float(np.abs(offset).max()) or 1.0
    return 0.38 * offset / max(largest, 6.0)


def factor_ticks(low: float, high: float) -> list[float]:
    """Return at most nine round factors between two."""
    steps = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 15, 20]
    inside = [step for step in steps if low <= step <= high]
    for fine in (0.05, 0.02, 0.01, 0.005, 0.002, 0.001):
        if len(inside) >= 3:
            break
        inside = [float(round(fine * n, 4)) for n in range(int(np.ceil(low / fine)), int(high / fine) + 1)]
    return inside if len(inside) <= 9 else inside[:: -(-len(inside) // 9)]


def _name(entry: Mapping[str, Any]) -> str:
    whose = entry.get("whose")
    return f"{entry['feature']} ({whose})" if whose else str(entry["feature"])


def _detail(entry: Mapping[str, Any]) -> str:
    value, group = entry.get("value"), entry.get("group")
    parts = []
    if isinstance(value, int | float) and not np.isnan(value):
        parts.append(f"value {significant(float(value))}")
    elif value is not None and not isinstance(value, int | float):
        parts.append(f"value {full(value, 60)}")
    if group:
        parts.append(full(group, 60))
    return ", ".join(parts)


def _alt_waterfall(base: float, steps: list[tuple[str, float, str]], prediction: float, start: str) -> str:
    parts = [f"{shorten(visible(name), 60)} x {np.exp(step):.2f}" for name, step, _ in steps[:6]]
    return (
        f"Waterfall from {start}, {np.exp(base):.2f} x, to the predicted {np.exp(prediction):.2f} x. "
        f"Largest factors: {'; '.join(parts)}."
    )


_CAUSE_ROW = 44


def cause_bars(frame: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw one bar a job and co-runner, made of the resources that the co-runner takes.

    Parameters
    ----------
    frame : pd.DataFrame
        workload, by (empty for what is the job's own), resource, shap (part of ln S), and where known value, in words.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        The parts of a job's bars add up to its ln S, so that their factors multiply to its slowdown.
    """
    pen = ink(theme)
    pairs = list(dict.fromkeys(zip(frame["workload"].astype(str), frame["by"].astype(str), strict=True)))
    labels = unique_labels([f"{own} ← {by}" if by else f"{own}: itself" for own, by in pairs], 60)
    at = dict(zip(pairs, labels, strict=True))
    sizes = frame["shap"].abs().groupby(frame["resource"]).sum().sort_values(ascending=False, kind="stable")
    figure = go.Figure()
    for place, resource in enumerate(sizes.index):
        part = frame[frame["resource"] == resource]
        figure.add_bar(
            y=[at[str(own), str(by)] for own, by in zip(part["workload"], part["by"], strict=True)],
            x=part["shap"].to_numpy(float), orientation="h", name=str(resource), hoverinfo="text",
            marker={"color": categories(theme)[place % len(CATEGORIES)]},
            hovertext=[
                f"<b>{full(str(row['workload']))}</b><br>{resource}: x {np.exp(row['shap']):.3f}"
                + (f"<br>{full(str(row['value']), 120)}" if row.get("value") else "")
                for row in part.to_dict("records")
            ],
        )  # fmt: skip
    totals: dict[tuple[str, str], float] = {}
    for own, by in pairs:
        parts = frame.loc[(frame["workload"] == own) & (frame["by"] == by), "shap"].astype(float)
        totals[own, by] = float(parts.sum())
        figure.add_annotation(
            x=float(parts[parts > 0].sum()), y=at[own, by], text=f"x {np.exp(totals[own, by]):.2f}", xanchor="left",
            showarrow=False, xshift=5, font={"size": 12, "color": pen.text},
        )  # fmt: skip
    high, low = max([0.1, *totals.values()]), min([0.0, *totals.values()])
    ticks = factor_ticks(float(np.exp(1.15 * low)), float(np.exp(1.15 * high)))
    figure.update_layout(
        barmode="relative", bargap=0.35, legend={"itemclick": False, "itemdoubleclick": False},
        xaxis={"title": {"text": "factor on the slowdown (parts multiply)"}, "tickvals": np.log(ticks),
               "ticktext": [f"{tick:g}" for tick in ticks], "range": [1.15 * low, 1.15 * high + 0.02]},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
    )  # fmt: skip
    largest = [
        f"{shorten(visible(own), 40)} through {shorten(visible(by), 40) or 'itself'} x {np.exp(total):.2f}"
        for (own, by), total in totals.items()
    ]
    alt = f"Bars of what each job pays to whom, by resource: {'; '.join(largest)}."
    return finish(figure, alt=alt, theme=theme, height=130 + _CAUSE_ROW * max(len(pairs), 2))


def dependence(
    frame: pd.DataFrame, *, feature: str, other: str | None, unit: str = "", theme: str = "light"
) -> go.Figure:
    """Draw the contributions of one feature over its values.

    Parameters
    ----------
    frame : pd.DataFrame
        value, shap (ln S), workload, and other (value of the second feature) where there is one; one row a prediction.
    feature : str
        What the values are of.
    other : str or None
        What the colour shows; None for one colour.
    unit : str
        Unit of the values, for the axis; values over several decades get a logarithmic one.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    values, shap = frame["value"].to_numpy(float), frame["shap"].to_numpy(float)
    marker: dict[str, object] = {"size": 7, "opacity": 0.8, "color": "#56B4E9"}
    if other is not None:
        rank = frame["other"].rank(pct=True).to_numpy(float)
        marker |= {
            "color": np.where(np.isnan(rank), 0.5, rank), "cmin": 0, "cmax": 1, "showscale": True,
            "colorscale": [[0, "#56B4E9"], [0.5, "#8A949E"], [1, "#D55E00"]],
            "colorbar": {"title": {"text": label(shorten(visible(other), 34)), "side": "top"}, "tickvals": [0, 1],
                         "ticktext": ["low", "high"], "thickness": 12, "len": 0.7},
        }  # fmt: skip
    figure = go.Figure(
        go.Scatter(
            x=values, y=shap, mode="markers", marker=marker, showlegend=False, hoverinfo="text",
            hovertext=[
                f"<b>{label(str(name))}</b><br>{significant(v) if v == v else '–'} {label(unit)}: x {np.exp(s):.3f}"
                for name, v, s in zip(frame["workload"], values, shap, strict=True)
            ],
        )
    )  # fmt: skip
    around = max(float(np.abs(shap).max()) if len(shap) else 0.0, 0.02)
    ticks = factor_ticks(float(np.exp(-1.1 * around)), float(np.exp(1.1 * around)))
    figure.add_hline(y=0, line={"color": pen.line, "width": 1})
    figure.update_layout(
        xaxis={
            "title": {"text": f"{label(shorten(visible(feature), 60))}{f', {label(unit)}' if unit else ''}"},
            "zeroline": False,
            "type": "log" if _decades(values) > 2 else "linear",
        },
        yaxis={
            "title": {"text": "factor on the slowdown, x"},
            "zeroline": False,
            "tickvals": np.log(ticks),
            "ticktext": [f"{tick:g}" for tick in ticks],
        },
        margin={"t": 16},
    )
    known = np.isfinite(values)
    way = float(np.corrcoef(values[known], shap[known])[0, 1]) if known.sum() > 2 and np.ptp(values[known]) > 0 else 0.0
    trend = "rises with" if way > 0.3 else "falls with" if way < -0.3 else "has no plain trend over"
    alt = (
        f"Points: the contribution of {shorten(visible(feature), 60)} {trend} its value, over {len(frame)} predictions."
    )
    if other is not None:
        alt += f" Coloured by {shorten(visible(other), 60)}."
    return finish(figure, alt=alt, theme=theme, height=420)


def _decades(values: np.ndarray) -> float:
    """Return over how many decades values spread; 0 where one of them has no logarithm."""
    known = values[np.isfinite(values)]
    return float(np.log10(known.max() / known.min())) if len(known) and known.min() > 0 else 0.0
