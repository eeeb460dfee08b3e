"""Predicted against measured slowdowns, and what is left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.charts.theme import (
    BESIDE,
    CATEGORIES,
    WORSE,
    categories,
    emphasis,
    finish,
    full,
    ink,
    label,
    unique_labels,
)
from analysis.numbers import shorten, significant, visible

#: Above this many points the browser draws them on a canvas.
_CANVAS = 3000

#: Ticks of a logarithmic slowdown axis.
TICKS = (0.25, 0.5, 0.75, 1, 1.2, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32)


def predicted_vs_measured(
    frame: pd.DataFrame, *, colour: str | None = None, band: float = 10.0, theme: str = "light"
) -> go.Figure:
    """Draw each member once: measured slowdown across, predicted up, with the line on which they agree.

    Parameters
    ----------
    frame : pd.DataFrame
        workload, measured, predicted; optionally beside (text), low, high.
    colour : str, optional
        Column that colours the points, at most eight values.
    band : float
        Percent around the line that is shaded.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["measured", "predicted"]).reset_index(drop=True)
    figure = go.Figure()
    values = np.array([*known["measured"], *known["predicted"], 1.0, 2.0], dtype=float)
    low, high = float(values.min()) * 0.94, float(values.max()) * 1.06
    ends = np.array([low, high])
    figure.add_scatter(
        x=[low, high, high, low], y=[*(ends * (1 - band / 100)), *(ends[::-1] * (1 + band / 100))], fill="toself",
        mode="none", fillcolor="rgba(127,140,152,0.18)", hoverinfo="skip", name=f"within {band:g} %",
    )  # fmt: skip
    figure.add_scatter(
        x=ends,
        y=ends,
        mode="lines",
        line={"color": pen.muted, "width": 1.2},
        hoverinfo="skip",
        name="predicted = measured",
    )
    parts = [("", known)] if colour is None else [(str(key), part) for key, part in known.groupby(colour, sort=True)]
    kind = go.Scattergl if len(known) > _CANVAS else go.Scatter
    for place, (name, part) in enumerate(parts):
        shade = emphasis(theme) if colour is None else categories(theme)[place % len(CATEGORIES)]
        figure.add_trace(
            kind(
                x=part["measured"].to_numpy(float), y=part["predicted"].to_numpy(float), mode="markers",
                marker={"color": shade, "size": 6 if len(known) > 500 else 8, "opacity": 0.55},
                name=label(name), showlegend=colour is not None,
                hovertext=[_member(row) for row in part.to_dict("records")], hoverinfo="text",
            )
        )  # fmt: skip
    axis = {
        "type": "log",
        "range": list(np.log10([low, high])),
        "tickvals": TICKS,
        "ticktext": [f"{t:g}" for t in TICKS],
    }
    figure.update_layout(
        xaxis={**axis, "title": {"text": "measured slowdown, x"}, "zeroline": False},
        yaxis={**axis, "title": {"text": "predicted slowdown, x"}, "zeroline": False},
        hovermode="closest",
    )
    return finish(figure, alt=_alt_scatter(known, band), theme=theme, height=520)


def residuals(frame: pd.DataFrame, *, by: str = "workload", most: int = 40, theme: str = "light") -> go.Figure:
    """Draw the signed relative error of each group as a box; predictions that are too low lie on the dangerous side.

    Parameters
    ----------
    frame : pd.DataFrame
        measured, predicted and the column ``by``.
    by : str
        What makes a group: workload, gpu, k ...
    most : int
        Groups drawn, those with the largest median absolute error first.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["measured", "predicted"]).copy()
    known["error"] = 100 * (known["predicted"] / known["measured"] - 1)
    sizes = known["error"].abs().groupby(known[by].astype(str)).median().sort_values(ascending=False)
    names = [str(name) for name in sizes.index[:most]]
    labels = unique_labels(names, 34)
    figure = go.Figure()
    for name, text in zip(names, labels, strict=True):
        errors = known.loc[known[by].astype(str) == name, "error"].to_numpy(float)
        figure.add_box(
            x=errors, y=[text] * len(errors), orientation="h", boxpoints="outliers", line={"width": 1.3},
            marker={"color": emphasis(theme), "size": 4}, fillcolor="rgba(86,180,233,0.22)", showlegend=False,
            hoverinfo="x+name", name=text,
        )  # fmt: skip
    figure.add_vline(x=0, line={"color": pen.text, "width": 1.2})
    reach = float(known["error"].abs().max()) * 1.05 if len(known) else 10.0
    for side, text in ((0.0, "too low: a loss that comes as a surprise"), (1.0, "too high")):
        figure.add_annotation(
            x=side, xref="paper", y=1, yref="paper", yanchor="bottom", xanchor="left" if side == 0 else "right",
            text=text, showarrow=False, font={"size": 11, "color": WORSE if side == 0 else pen.muted},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"range": [-reach, reach], "title": {"text": "predicted over measured, %"}, "zeroline": False},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        boxgap=0.35,
        margin={"t": 30},
    )
    left_out = len(sizes) - len(names)
    worst = ", ".join(f"{shorten(visible(n), 60)} {significant(float(sizes[n]))} %" for n in names[:3])
    alt = (
        f"Boxes of the relative prediction error by {by}, {len(names)} groups. Largest median absolute error: {worst}."
        + (f" {left_out} more are not drawn." if left_out > 0 else "")
        if names
        else "No predictions to draw."
    )
    return finish(figure, alt=alt, theme=theme, height=90 + 24 * max(len(names), 2))


def _member(row: Mapping[Any, Any]) -> str:
    measured, predicted = float(row["measured"]), float(row["predicted"])
    beside = f"<br>beside {full(row['beside'], 120)}" if row.get("beside") else ""
    error = 100 * (predicted / measured - 1)
    return (
        f"<b>{full(row['workload'], 120)}</b>{beside}<br>measured {significant(measured)} x, predicted "
        f"{significant(predicted)} x ({error:+.1f} %)"
    )


def _alt_scatter(known: pd.DataFrame, band: float) -> str:
    if known.empty:
        return "No predictions to draw."
    error = (known["predicted"] / known["measured"] - 1).abs() * 100
    inside = significant(float((error <= band).mean() * 100))
    return (
        f"Predicted against measured slowdown of {len(known)} members; {inside} % lie within {band:g} %, "
        f"mean absolute error {significant(float(error.mean()))} %."
    )


def coverage(
    frame: pd.DataFrame, *, label: str = "predictor", nominal: float = 90.0, theme: str = "light"
) -> go.Figure:
    """Draw one line a predictor or protocol: how often its intervals held.

    Parameters
    ----------
    frame : pd.DataFrame
        The column ``label``, coverage (percent), and where known width (in S) and groups; rows without a coverage
        are left out.
    label : str
        Column of the names.
    nominal : float
        The level that was promised, in percent.
    theme : {"light", "dark"}
        The background.
    """
    pen = ink(theme)
    known = frame.dropna(subset=["coverage"]).reset_index(drop=True)
    names = [str(name) for name in known[label]]
    labels = unique_labels(names, 40)
    values = known["coverage"].to_numpy(float)
    notes = [_note(row) for row in known.to_dict("records")]
    figure = go.Figure()
    for text, value in zip(labels, values, strict=True):
        figure.add_scatter(
            x=[nominal, value], y=[text, text], mode="lines", showlegend=False, hoverinfo="skip",
            line={"width": 3, "color": WORSE if value < nominal else emphasis(theme)},
        )  # fmt: skip
    figure.add_scatter(
        x=values, y=labels, mode="markers", showlegend=False, hoverinfo="text",
        marker={"size": 12, "color": [WORSE if value < nominal else emphasis(theme) for value in values]},
        hovertext=[f"<b>{full(n)}</b><br>{significant(v)} % of {nominal:g} % {note}"
                   for n, v, note in zip(names, values, notes, strict=True)],
    )  # fmt: skip
    figure.add_vline(x=nominal, line={"color": pen.text, "width": 1.2, "dash": "dash"})
    figure.add_annotation(
        x=nominal, y=1, yref="paper", yanchor="bottom", text=f"promised {nominal:g} %", showarrow=False,
        font={"size": 11, "color": pen.muted},
    )  # fmt: skip
    for text, value, note in zip(labels, values, notes, strict=True):
        figure.add_annotation(
            x=1, xref="paper", y=text, xanchor="left", xshift=8, showarrow=False, align="left",
            text=f"{significant(value)} %{note}", font={"size": 12, "color": pen.text},
        )  # fmt: skip
    low = float(min([*values, nominal - 10])) if len(values) else 0.0
    figure.update_layout(
        xaxis={"range": [max(low - 4, 0), 100.5], "title": {"text": "measured values inside their interval, %"}},
        yaxis={"autorange": "reversed", "type": "category", "categoryarray": labels, "showgrid": False},
        margin={"t": 30, "r": 245},
    )
    parts = [
        f"{shorten(visible(n), 60)} {significant(v)} %{note}" for n, v, note in zip(names, values, notes, strict=True)
    ]
    alt = f"Coverage of {nominal:g} % intervals. {'; '.join(parts)}." if parts else "No intervals to draw."
    return finish(figure, alt=alt, theme=theme, height=90 + 30 * max(len(labels), 2))


def _note(row: Mapping[Any, Any]) -> str:
    parts = []
    width, groups = row.get("width"), row.get("groups")
    if width is not None and not np.isnan(float(width)):
        parts.append(f"width {significant(float(width))} x")
    if groups is not None and not np.isnan(float(groups)):
        parts.append(f"{int(float(groups))} groups")
    return f", {', '.join(parts)}" if parts else ""


def expected_error(
    start: float, chosen: Sequence[float], by_lot: Sequence[float], partners: Sequence[str], *, theme: str = "light"
) -> go.Figure:
    """Draw the expected error after 0, 1, 2, ... runs.

    Parameters
    ----------
    start : float
        Expected error before any run, percent.
    chosen, by_lot : sequence of float
        After each chosen run, and after as many by lot, percent.
    partners : sequence of str
        Who each chosen run is beside.
    theme : {"light", "dark"}
        The background.
    """
    at = list(range(len(chosen) + 1))
    figure = go.Figure()
    figure.add_scatter(
        x=at, y=[start, *by_lot], mode="lines+markers", name="by lot", line={"color": BESIDE, "dash": "dash"},
        hovertemplate="%{x} by lot: %{y:.3g} %<extra></extra>",
    )  # fmt: skip
    labels = ["before any run", *(f"beside {full(name)}" for name in partners)]
    figure.add_scatter(
        x=at, y=[start, *chosen], mode="lines+markers", name="in this order", customdata=labels,
        line={"color": emphasis(theme), "width": 3}, marker={"size": 9},
        hovertemplate="<b>%{customdata}</b><br>%{x} measured: %{y:.3g} %<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "runs measured"}, "dtick": max(1, len(at) // 10)},
        yaxis={"title": {"text": "expected error of its pairs, %"}, "rangemode": "tozero"},
    )
    named = [shorten(visible(name), 60) for name in partners]
    steps = [f"{significant(value)} % beside {name}" for value, name in zip(chosen, named, strict=True)]
    alt = f"Expected error, before any run {significant(start)} %, then after each: {'; '.join(steps)}."
    if by_lot:
        alt += f" By lot {significant(by_lot[-1])} % after {len(by_lot)}."
    return finish(figure, alt=alt, theme=theme, height=330)


def transfer_scatter(
    pairs: pd.DataFrame, source: str, target: str, *, limit: float = 1.2, theme: str = "light"
) -> go.Figure:
    """Draw the slowdown of every pair on one GPU against that on another.

    Parameters
    ----------
    pairs : pd.DataFrame
        workload, beside, source, target: S on either, NaN where it is not known.
    source, target : str
        The GPUs.
    limit : float
        Dots on different sides of it on both axes are drawn in the colour of what is worse, as a diamond.
    theme : {"light", "dark"}
        The background.
    """
    frame = pairs.dropna(subset=["source", "target"])
    pen = ink(theme)
    figure = go.Figure()
    x, y = frame["source"].to_numpy(float), frame["target"].to_numpy(float)
    span = _span([x, y], limit)
    _equals(figure, span, pen.line)
    for axis in ("x", "y"):
        ends = {"x0": limit, "x1": limit, "y0": span[0], "y1": span[1]}
        if axis == "y":
            ends = {"y0": limit, "y1": limit, "x0": span[0], "x1": span[1]}
        figure.add_shape(type="line", **ends, line={"color": pen.muted, "width": 1, "dash": "dash"}, layer="below")
    changed = (x <= limit) != (y <= limit)
    for name, which, colour, symbol in (
        (f"same side of {limit:g} x", ~changed, emphasis(theme), "circle"),
        (f"other side of {limit:g} x", changed, WORSE, "diamond"),
    ):
        part = frame[which]
        figure.add_scatter(
            x=part["source"], y=part["target"], mode="markers", name=name, hoverinfo="text",
            hovertext=[
                f"<b>{full(row['workload'])}</b><br>beside {full(row['beside'])}<br>{label(source)} "
                f"{significant(row['source'])} x, {label(target)} {significant(row['target'])} x"
                for row in part.to_dict("records")
            ],
            marker={"size": 7, "symbol": symbol, "color": colour, "opacity": 0.75,
                    "line": {"width": 0.5, "color": pen.surface}},
        )  # fmt: skip
    common = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:g}" for tick in TICKS], "zeroline": False}
    figure.update_layout(
        xaxis={**common, "range": np.log10(span), "title": {"text": f"slowdown on {label(source)}, x"}},
        yaxis={**common, "range": np.log10(span), "title": {"text": f"slowdown on {label(target)}, x"}},
        hovermode="closest",
    )
    alt = (
        f"Scatter of {len(frame)} pairs by their slowdown on {visible(source)} and on {visible(target)}; "
        f"{int(changed.sum())} are on different sides of {limit:g} x."
    )
    return finish(figure, alt=alt, theme=theme, height=480)


def composition_scatter(members: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw what the pairs of a set say of its members against what was measured, additive and multiplicative.

    Parameters
    ----------
    members : pd.DataFrame
        As `analysis.interference.sets.composition` gives it.
    theme : {"light", "dark"}
        The background.
    """
    frame = members.dropna(subset=["measured", "additive", "product"])
    pen = ink(theme)
    headings = ("added up: 1 + sum of (S - 1)", "multiplied: product of S")
    figure = make_subplots(1, 2, subplot_titles=headings, horizontal_spacing=0.08)
    span = _span([frame[name].to_numpy(float) for name in ("measured", "additive", "product")], 1.2)
    common = {"type": "log", "tickvals": TICKS, "ticktext": [f"{tick:g}" for tick in TICKS], "range": np.log10(span)}
    for number, how in enumerate(("additive", "product"), 1):
        _equals(figure, span, pen.line, number)
        figure.add_scatter(
            x=frame["measured"], y=frame[how], mode="markers", row=1, col=number, showlegend=False, hoverinfo="text",
            hovertext=[_words(row["jobs"], row["workload"], row["measured"], row[how])
                       for row in frame.to_dict("records")],
            marker={"size": 6, "color": categories(theme)[0], "opacity": 0.6,
                    "line": {"width": 0.5, "color": pen.surface}},
        )  # fmt: skip
        figure.update_xaxes(**common, title={"text": "measured in the set, x"}, row=1, col=number)
        figure.update_yaxes(**common, title={"text": "from its pairs, x" if number == 1 else ""}, row=1, col=number)
    figure.update_annotations(font_size=13)
    alt = f"{len(frame)} members of sets of three and more: measured slowdown against the composition of its pairs."
    return finish(figure, alt=alt, theme=theme, height=420)


def by_k_panels(table: pd.DataFrame, *, theme: str = "light") -> go.Figure:
    """Draw how time together, ANTT and fairness go with the number of jobs.

    Parameters
    ----------
    table : pd.DataFrame
        As `analysis.interference.sets.by_k` gives it.
    theme : {"light", "dark"}
        The background.
    """
    panels = (
        ("together", "Time together, min<br>(100 = one after the other)"), ("antt", "ANTT, x"),
        ("fairness", "Fairness<br>(1 = all suffer alike)"), ("worst", "Worst S, x"),
    )  # fmt: skip
    figure = make_subplots(1, len(panels), horizontal_spacing=0.06, subplot_titles=[heading for _, heading in panels])
    for number, (column, _) in enumerate(panels, 1):
        values = table[column].to_numpy(float)
        figure.add_scatter(
            x=table["k"].astype(str), y=values, mode="lines+markers+text", row=1, col=number, showlegend=False,
            text=[significant(value) for value in values], textposition="top center", cliponaxis=False,
            marker={"size": 9, "color": emphasis(theme)}, line={"width": 2, "color": emphasis(theme)},
            hoverinfo="skip",
        )  # fmt: skip
        top = float(np.nanmax(values)) * 1.25 if np.isfinite(values).any() else 1.0
        figure.update_yaxes(range=[0, top], nticks=5, row=1, col=number)
        figure.update_xaxes(title={"text": "jobs at once"}, type="category", row=1, col=number)
    ends = [
        f"k {row['k']}: STP {significant(row['stp'])}, ANTT {significant(row['antt'])} x"
        for row in table.to_dict("records")
    ]
    figure.update_annotations(font_size=13)
    figure.update_layout(margin={"t": 56})
    return finish(figure, alt=f"Medians over sets by the number of jobs. {'; '.join(ends)}.", theme=theme, height=320)


def _span(values: Sequence[np.ndarray], limit: float) -> tuple[float, float]:
    known = np.concatenate([part[np.isfinite(part)] for part in values]) if values else np.array([])
    known = known if known.size else np.array([1.0])
    return min(0.97, float(known.min())) * 0.97, max(limit * 1.1, float(known.max())) * 1.08


def _equals(figure: go.Figure, span: tuple[float, float], colour: str, number: int | None = None) -> None:
    place = {} if number is None else {"row": 1, "col": number}
    figure.add_scatter(
        x=list(span), y=list(span), mode="lines", line={"color": colour, "width": 1}, hoverinfo="skip",
        showlegend=False, **place,
    )  # fmt: skip


def _words(jobs: Sequence[str], workload: str, measured: float, composed: float) -> str:
    others = list(jobs)
    others.remove(workload)
    return (
        f"<b>{full(workload)}</b><br>beside {'<br>and '.join(full(job) for job in others)}<br>measured "
        f"{significant(measured)} x, from pairs {significant(composed)} x"
    )
