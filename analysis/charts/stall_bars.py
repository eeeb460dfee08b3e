"""Stacked bars of stall shares: one bar a workload, kernel or launch, one segment a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.theme import finish, group_colour, ink, on, reason_colour, reason_title
from analysis.charts.things import identity, things
from analysis.errors import UsageError
from analysis.numbers import significant
from analysis.reference import stall_reasons

#: A segment narrower than this share of the axis carries no text.
_ROOM_FOR_TEXT = 0.065
_ROW, _HEAD = 34, 92


#: Width of the outline of a reason that a GPU can't report, and the gap before it, as parts of the axis.
_ABSENT, _GAP = 0.016, 0.006


def stall_bars(
    shares: pd.DataFrame,
    *,
    unit: str = "share",
    unavailable: Mapping[str, Sequence[str]] | None = None,
    theme: str = "light",
    most: int = 30,
) -> go.Figure:
    """Draw what warps wait for, one stacked bar for each thing.

    Parameters
    ----------
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares`, of one family of metrics.
    unit : {"share", "cycles"}
        Percent of warp cycles, or warp cycles for each issued instruction (the digits of Nsight Compute's own chart).
    unavailable : mapping of str to sequence of str, optional
        Reasons that a GPU can't report, by GPU: a dotted outline each behind the bar, as they are not zero.
    theme : {"light", "dark"}
        The background.
    most : int
        Bars drawn, the first ones of the table; the alternative text says how many are left out.

    Returns
    -------
    go.Figure
        Segments in the order and the colours of the groups; what the reasons do not account for is hatched.

    Raises
    ------
    UsageError
        If the unit is unknown, or the rows are of several families, which have no common axis.
    """
    if unit not in ("share", "cycles"):
        raise UsageError(f"unknown unit {unit!r}", "Choose share or cycles.")
    families = sorted(set(shares["stall_family"].dropna().astype(str))) if "stall_family" in shares else []
    if len(families) > 1:
        raise UsageError(f"{' and '.join(families)} have no common axis", "Draw one chart for each family.")
    rows = things(shares)
    left_out, rows = max(len(rows) - most, 0), rows.head(most)
    keys = identity(shares)
    frame = shares.merge(rows[[*keys, "label", "hover"]], on=keys)
    frame = frame[frame[unit].notna()]
    figure = go.Figure()
    whole = _whole(frame, unit)
    reach = float(max(whole.max(), frame.groupby("label")[unit].sum().max())) if len(frame) else 100.0
    for group in stall_reasons.groups():
        _legend(figure, group.name, theme)
        ordered = [name for name in dict.fromkeys([*group.reasons, *frame["reason"]]) if name is not None]
        for reason in ordered:
            part = frame[(frame["reason"] == reason) & (frame["group"] == group.name)]
            if len(part) and part[unit].max() > 0:
                figure.add_bar(**_segment(part, reason, unit, reach, theme))
    _unaccounted(figure, frame, whole, unit, theme)
    absent = _absent(figure, frame, whole, unit, reach, unavailable or {}, theme)
    pen = ink(theme)
    title = "share of warp cycles, %" if unit == "share" else "warp cycles for each issued instruction"
    figure.update_layout(
        barmode="stack",
        xaxis={"title": {"text": title}, "range": [0, reach * (1.005 + absent * (_ABSENT + _GAP))], "side": "bottom"},
        yaxis={"autorange": "reversed", "showgrid": False, "categoryarray": list(rows["label"]), "type": "category"},
        legend={"traceorder": "normal", "itemclick": False, "itemdoubleclick": False, "font": {"color": pen.text}},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
    height = _HEAD + _ROW * max(len(rows), 1) + (46 if absent else 28)
    return finish(figure, alt=_alt(frame, rows, unit, left_out), theme=theme, height=height)


def _whole(frame: pd.DataFrame, unit: str) -> pd.Series[float]:
    """Length of each full bar: 100 % or the stated total; NaN where no total is stated."""
    first = frame.groupby("label", sort=False).first()
    if unit == "cycles":
        return first["total"].astype(float)
    return pd.Series(np.where(first["accounted"].isna(), np.nan, 100.0), first.index)


def _segment(part: pd.DataFrame, reason: str, unit: str, reach: float, theme: str) -> dict[str, object]:
    colour = reason_colour(reason)
    words = _share_words if unit == "share" else _cycle_words
    return {
        "y": list(part["label"]),
        "x": part[unit].to_numpy(float),
        "orientation": "h",
        "name": reason_title(reason),
        "showlegend": False,
        "marker": {"color": colour, "line": {"width": 1, "color": ink(theme).surface}},
        "text": [reason_title(reason) if value > _ROOM_FOR_TEXT * reach else "" for value in part[unit]],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": on(colour), "size": 11},
        "hovertext": [
            f"{row['hover']}<br><b>{reason_title(reason)}</b> ({row['group']}): {words(row)}"
            for row in part.to_dict("records")
        ],
        "hoverinfo": "text",
    }


def _share_words(row: Mapping[Any, Any]) -> str:
    cycles = float(row["cycles"])
    beside = "" if np.isnan(cycles) else f", {significant(cycles)} cycles an issue"
    return f"{significant(float(row['share']))} % of warp cycles{beside}"


def _cycle_words(row: Mapping[Any, Any]) -> str:
    return f"{significant(float(row['cycles']))} cycles an issue, {significant(float(row['share']))} %"


def _legend(figure: go.Figure, group: str, theme: str) -> None:
    """Add a group's legend entry, drawn or not, so that every chart has the same legend."""
    hatched = group == "unaccounted"
    pattern = {"shape": "/", "fgcolor": ink(theme).muted, "bgcolor": "rgba(0,0,0,0)", "size": 6} if hatched else {}
    figure.add_bar(
        x=[None],
        y=[None],
        name=group,
        marker={
            "color": "rgba(0,0,0,0)" if hatched else group_colour(group),
            "pattern": pattern,
            "line": {"width": 1 if hatched else 0, "color": ink(theme).line},
        },
        hoverinfo="skip",
    )


def _unaccounted(figure: go.Figure, frame: pd.DataFrame, whole: pd.Series[float], unit: str, theme: str) -> None:
    """Add what is missing to the stated total, hatched."""
    reported = frame.groupby("label", sort=False)[unit].sum()
    left = (whole - reported).clip(lower=0).dropna()
    left = left[left > 0.005 * whole.reindex(left.index)]
    if left.empty:
        return
    hover = frame.drop_duplicates("label").set_index("label")["hover"]
    of_total = 100 * left / whole.reindex(left.index)
    figure.add_bar(
        y=list(left.index),
        x=left.to_numpy(),
        orientation="h",
        name="unaccounted",
        showlegend=False,
        marker={
            "color": "rgba(0,0,0,0)",
            "pattern": {"shape": "/", "fgcolor": ink(theme).muted, "bgcolor": "rgba(0,0,0,0)", "size": 6},
            "line": {"width": 1, "color": ink(theme).line},
        },
        hovertext=[
            f"{hover[name]}<br><b>Unaccounted</b>: {significant(of_total[name])} % of warp cycles that no reported "
            "reason explains"
            for name in left.index
        ],
        hoverinfo="text",
    )


def _absent(
    figure: go.Figure,
    frame: pd.DataFrame,
    whole: pd.Series[float],
    unit: str,
    reach: float,
    unavailable: Mapping[str, Sequence[str]],
    theme: str,
) -> int:
    """Outline what each thing's GPU can't report, behind its bar; return how many there are at most."""
    reported = frame.groupby("label", sort=False)[unit].sum()
    ends = pd.concat([reported, whole], axis=1).max(axis=1).to_dict()
    rows = frame.drop_duplicates("label").to_dict("records")
    places: list[tuple[str, float, str]] = []
    most = 0
    for row in rows:
        name = row["label"]
        there = set(frame.loc[frame["label"] == name, "reason"])
        missing = [reason for reason in unavailable.get(str(row["gpu"]), ()) if reason not in there]
        most = max(most, len(missing))
        for place, reason in enumerate(missing):
            left = float(ends[name]) + reach * (_GAP + place * (_ABSENT + _GAP))
            places.append(
                (str(name), left, f"{row['hover']}<br><b>{reason_title(reason)}</b>: this GPU can't report it")
            )
    if not places:
        return 0
    y_of = {str(row["label"]): place for place, row in enumerate(rows)}
    # All at once: added one by one, each outline would be checked against all before it.
    line = {"color": ink(theme).muted, "width": 1.2, "dash": "dot"}
    figure.update_layout(
        shapes=[
            {"type": "rect", "xref": "x", "yref": "y", "x0": left, "x1": left + reach * _ABSENT, "y0": y_of[name] - 0.3,
             "y1": y_of[name] + 0.3, "line": line}
            for name, left, _ in places
        ]
    )  # fmt: skip
    figure.add_scatter(
        x=[left + reach * _ABSENT / 2 for _, left, _ in places], y=[name for name, _, _ in places], mode="markers",
        name="not available on this GPU", hovertext=[text for *_, text in places], hoverinfo="text",
        marker={"symbol": "square-open-dot", "size": 9, "color": ink(theme).muted, "opacity": 0.01},
        showlegend=False,
    )  # fmt: skip
    figure.add_scatter(
        x=[None], y=[None], mode="markers", name="not available on this GPU", hoverinfo="skip",
        marker={"symbol": "square-open-dot", "size": 11, "color": ink(theme).muted},
    )  # fmt: skip
    return most


def _alt(frame: pd.DataFrame, rows: pd.DataFrame, unit: str, left_out: int) -> str:
    if frame.empty:
        return "No stall reasons to draw."
    what = "shares of warp cycles" if unit == "share" else "warp cycles for each issued instruction"
    top = frame.sort_values(unit, ascending=False, kind="stable").drop_duplicates("label")
    largest = {row["label"]: (str(row["reason"]), float(row[unit])) for row in top.to_dict("records")}
    mark = " %" if unit == "share" else ""
    parts = [
        f"{name}: {reason_title(largest[key][0])} {significant(largest[key][1])}{mark}"
        for key, name in rows[["label", "name"]].head(5).itertuples(index=False)
        if key in largest
    ]
    more = f" {left_out} more are not drawn." if left_out else ""
    return f"Stacked bars of {what} by stall reason for {len(rows)} items. Largest reason of {'; '.join(parts)}.{more}"
