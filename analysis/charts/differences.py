"""What differs between a baseline and others: one row a stall reason, one bar an other, left less and right more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.marks import bar_rows
from analysis.charts.theme import categories, finish, full, ink, label, reason_title
from analysis.numbers import shorten, significant, visible

_ROW, _BAR, _HEAD = 14, 15, 96

#: Rows drawn; the table holds all.
MOST = 20


def differences(rows: pd.DataFrame, *, base: str, value: str = "difference", theme: str = "light") -> go.Figure:
    """Draw differences of stall reasons, other minus base.

    Parameters
    ----------
    rows : pd.DataFrame
        other and other_gpu (whose difference it is), reason, and the columns of
        `analysis.stalls.compare.Comparison.totals`; the largest difference first.
    base : str
        Name of the baseline.
    value : {"difference", "cycles_difference"}
        Percentage points, or warp cycles for each issued instruction.
    theme : {"light", "dark"}
        The background.

    Returns
    -------
    go.Figure
        A reason that one side can't report, or doesn't, has no bar but says so: it is no difference of its whole share.
    """
    pen = ink(theme)
    named = rows.assign(who=rows["other"].astype(str) + " on " + rows["other_gpu"].astype(str))
    others = list(dict.fromkeys(named["who"]))
    size = named.assign(size=named[value].abs()).groupby("reason", sort=False)["size"].max().fillna(-1.0)
    reasons = list(size.sort_values(ascending=False, kind="stable").index[:MOST])
    titles = [reason_title(str(reason)) for reason in reasons]
    unit = "points" if value == "difference" else "cycles an issue"
    figure = go.Figure()
    reach = float(np.nanmax([*np.abs(named[value].to_numpy(float)), 0.0])) or 1.0
    places, thick = bar_rows(len(reasons), len(others))
    for place, who in enumerate(others):
        part = named[named["who"] == who].drop_duplicates("reason").set_index("reason").reindex(reasons)
        numbers = part[value].to_numpy(float)
        words = [_words(row, numbers[i], unit) for i, row in enumerate(part.to_dict("records"))]
        figure.add_bar(
            x=numbers, y=places[place], width=thick, orientation="h", name=label(who, 40),
            marker={"color": categories(theme)[place % 8]},
            text=["" if np.isnan(number) else f"{number:+.1f}" for number in numbers], textposition="outside",
            textfont={"size": 11, "color": pen.text}, cliponaxis=False,
            hovertext=[f"<b>{title}</b><br>{full(who)}: {text}" for title, text in zip(titles, words, strict=True)],
            hoverinfo="text",
        )  # fmt: skip
        silent = [i for i, number in enumerate(numbers) if np.isnan(number)]
        if silent:
            figure.add_scatter(
                x=[0.014 * reach] * len(silent), y=[places[place][i] for i in silent], mode="markers",
                marker={"symbol": "square-open-dot", "size": 9, "color": pen.muted}, showlegend=False,
                hovertext=[f"<b>{titles[i]}</b><br>{full(who)}: {words[i]}" for i in silent], hoverinfo="text",
            )  # fmt: skip
    if named[value].isna().any():
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name="not on both sides", hoverinfo="skip",
            marker={"symbol": "square-open-dot", "size": 10, "color": pen.muted},
        )  # fmt: skip
    axis = "percentage points" if value == "difference" else "warp cycles for each issued instruction"
    figure.update_layout(
        barmode="overlay",
        xaxis={"title": {"text": f"{axis}, more than {label(base, 60)} to the right"}, "zeroline": True,
               "range": [-1.18 * reach, 1.18 * reach]},
        yaxis={"range": [len(reasons) - 0.5, -0.5], "tickvals": list(range(len(reasons))), "ticktext": titles,
               "showgrid": False, "zeroline": False},
        legend={"itemclick": False, "itemdoubleclick": False}, showlegend=True,
    )  # fmt: skip
    height = _HEAD + max(len(reasons), 1) * (_ROW + _BAR * max(len(others), 1))
    return finish(figure, alt=_alt(named, base, value, unit, len(size) - len(reasons)), theme=theme, height=height)


def _words(row: dict[object, object], number: float, unit: str) -> str:
    if not np.isnan(number):
        first, second = row["share_base"], row["share_other"]
        return f"{number:+.2f} {unit} ({significant(float(str(second)))} % after {significant(float(str(first)))} %)"
    state = row["state"]
    return str(state) if isinstance(state, str) else "no such row"


def _alt(named: pd.DataFrame, base: str, value: str, unit: str, left_out: int) -> str:
    known = named.dropna(subset=[value])
    if known.empty:
        return "Nothing to draw: no reason is known on both sides."
    top = known.reindex(known[value].abs().sort_values(ascending=False, kind="stable").index).head(3)
    parts = [
        f"{shorten(visible(str(row['who'])), 60)} {reason_title(str(row['reason']))} {row[value]:+.1f} {unit}"
        for row in top.to_dict("records")
    ]
    more = f" {left_out} smaller ones are not drawn." if left_out > 0 else ""
    return f"Bars of differences from {shorten(visible(base), 60)} by stall reason. Largest: {'; '.join(parts)}.{more}"
