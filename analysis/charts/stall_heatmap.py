"""Kernels by stall reasons: where in a job the waits are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.marks import cell_texts, dotted_frames, legend_swatches
from analysis.charts.scale import SHARE
from analysis.charts.stall_bars import identity, things
from analysis.charts.theme import finish, group_colour, ink, on, reason_title
from analysis.numbers import significant
from analysis.reference import stall_reasons

_ROW, _HEAD = 26, 210


def stall_heatmap(
    shares: pd.DataFrame, *, unavailable: tuple[str, ...] = (), theme: str = "light", most: int = 40
) -> go.Figure:
    """Draw the share of each reason in each kernel.

    Parameters
    ----------
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares` by kernel or launch, the most important first.
    unavailable : tuple of str
        Reasons that the GPU can't report: drawn as a dotted outline, not as zero.
    theme : {"light", "dark"}
        The background.
    most : int
        Kernels drawn.

    Returns
    -------
    go.Figure
        Columns in the order of the groups, with the group's colour above; a dot where a reason was not reported.
    """
    rows = things(shares)
    left_out, rows = max(len(rows) - most, 0), rows.head(most)
    keys = identity(shares)
    frame = shares.merge(rows[[*keys, "label", "hover"]], on=keys)
    known = set(frame["reason"]) | set(unavailable)
    reasons = [name for group in stall_reasons.groups() for name in group.reasons if name in known]
    reasons += sorted(known - set(reasons))
    table = frame.pivot_table(index="label", columns="reason", values="share", aggfunc="first")
    table = table.reindex(index=rows["label"], columns=reasons)
    values = table.to_numpy(float)
    pen = ink(theme)
    titles = [reason_title(name) for name in reasons]
    groups = [stall_reasons.group_of(name) for name in reasons]
    hover = [
        [_words(rows["hover"].iloc[i], titles[j], groups[j], values[i, j], reasons[j] in unavailable)
         for j in range(len(reasons))]
        for i in range(len(rows))
    ]  # fmt: skip
    figure = go.Figure(
        go.Heatmap(
            z=SHARE.classes(values),
            x=list(range(len(reasons))),
            y=list(range(len(rows))),
            zmin=-0.5,
            zmax=len(SHARE.names) - 0.5,
            colorscale=SHARE.steps(theme),
            showscale=False,
            xgap=1,
            ygap=1,
            hovertext=hover,
            hoverinfo="text",
            hoverongaps=True,
        )
    )
    printed = [(j, i, values[i, j]) for i, j in np.argwhere(values >= 1)]
    cell_texts(
        figure,
        [(j, i, f"{value:.0f}", on(SHARE.colour(value, theme))) for j, i, value in printed],
        size=11,
    )
    missing = np.argwhere(np.isnan(values))
    never = [(j, i) for i, j in missing if reasons[j] in unavailable]
    absent = [(j, i) for i, j in missing if reasons[j] not in unavailable]
    dotted_frames(figure, never, pen.line)
    if absent:
        figure.add_scatter(
            x=[j for j, _ in absent], y=[i for _, i in absent], mode="markers", hoverinfo="skip", showlegend=False,
            marker={"symbol": "circle", "size": 3, "color": pen.muted},
        )  # fmt: skip
    figure.update_layout(
        shapes=[
            {"type": "rect", "xref": "x", "yref": "paper", "x0": j - 0.47, "x1": j + 0.47, "y0": 3, "y1": 9,
             "yanchor": 1, "ysizemode": "pixel", "line": {"width": 0}, "fillcolor": group_colour(group)}
            for j, group in enumerate(groups)
        ]
    )  # fmt: skip
    legend_swatches(figure, zip(SHARE.names, SHARE.colours(theme), strict=True), pen.line)
    figure.update_layout(
        xaxis={
            "tickmode": "array", "tickvals": list(range(len(reasons))), "ticktext": titles, "side": "top",
            "tickangle": -45, "showgrid": False, "zeroline": False, "range": [-0.5, len(reasons) - 0.5],
            "ticklabelstandoff": 12,
        },
        yaxis={
            "tickmode": "array", "tickvals": list(range(len(rows))), "ticktext": list(rows["label"]),
            "range": [len(rows) - 0.5, -0.5], "showgrid": False, "zeroline": False,
        },
        margin={"r": 70},
        legend={"y": 0, "yanchor": "top", "itemclick": False, "itemdoubleclick": False},
    )  # fmt: skip
    height = _HEAD + _ROW * max(len(rows), 1)
    return finish(figure, alt=_alt(table, list(rows["name"]), left_out), theme=theme, height=height)


def _words(thing: str, title: str, group: str, value: float, unavailable: bool) -> str:
    if not np.isnan(value):
        return f"{thing}<br><b>{title}</b> ({group}): {significant(value)} % of warp cycles"
    why = "this GPU can't report it" if unavailable else "not in the profile"
    return f"{thing}<br><b>{title}</b> ({group}): {why}"


def _alt(table: pd.DataFrame, names: list[str], left_out: int) -> str:
    if table.empty:
        return "No stall reasons to draw."
    values = table.to_numpy(float)
    order = np.argsort(-np.nan_to_num(values, nan=-1), axis=None, kind="stable")[:3]
    places = [(int(place) // values.shape[1], int(place) % values.shape[1]) for place in order]
    parts = [
        f"{reason_title(str(table.columns[j]))} in {names[i]}: {significant(values[i, j])} %"
        for i, j in places
        if not np.isnan(values[i, j])
    ]
    more = f" {left_out} more kernels are not drawn." if left_out else ""
    return (
        f"Heatmap of {len(table)} kernels by {table.shape[1]} stall reasons, in percent of warp cycles. "
        f"Largest: {'; '.join(parts)}.{more}"
    )
