"""Stacked bars of stall shares: one bar a workload, kernel or launch, one segment a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from analysis.charts.marks import bar_rows
from analysis.charts.theme import (
    categories,
    finish,
    full,
    group_colour,
    ink,
    label,
    on,
    reason_colour,
    reason_title,
    unique_labels,
)
from analysis.errors import UsageError
from analysis.numbers import shorten, significant, visible
from analysis.reference import stall_reasons

_DIFFERENCE_ROW, _BAR, _DIFFERENCE_HEAD = 14, 15, 96

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
    height = _DIFFERENCE_HEAD + max(len(reasons), 1) * (_DIFFERENCE_ROW + _BAR * max(len(others), 1))
    return finish(
        figure, alt=_difference_alt(named, base, value, unit, len(size) - len(reasons)), theme=theme, height=height
    )


def _words(row: dict[object, object], number: float, unit: str) -> str:
    if not np.isnan(number):
        first, second = row["share_base"], row["share_other"]
        return f"{number:+.2f} {unit} ({significant(float(str(second)))} % after {significant(float(str(first)))} %)"
    state = row["state"]
    return str(state) if isinstance(state, str) else "no such row"


def _difference_alt(named: pd.DataFrame, base: str, value: str, unit: str, left_out: int) -> str:
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


_IDENTITY = ("dataset", "workload", "gpu", "kernel", "grid", "block", "kernel_id")


def identity(frame: pd.DataFrame) -> list[str]:
    """Return the columns that identify what a row stands for."""
    found = [name for name in _IDENTITY if name in frame.columns]
    # Without full names the short one tells kernels apart: a row then stands for all kernels of it.
    return [*found, "short_name"] if "kernel" not in found and "short_name" in frame.columns else found


def things(frame: pd.DataFrame, most: int = 34) -> pd.DataFrame:
    """Return one row for each workload, kernel or launch of a table, in its order.

    Parameters
    ----------
    frame : pd.DataFrame
        Rows with the columns of `analysis.stalls.shares.KEYS`.
    most : int
        Longest label, in characters.

    Returns
    -------
    pd.DataFrame
        The identifying columns, label (short, unique, escaped; only what tells the things apart), name (the same as
        plain text) and
        hover (all of it, escaped).
    """
    keys = identity(frame)
    columns = list(dict.fromkeys([*keys, *(["short_name"] if "short_name" in frame.columns else [])]))
    found = frame[columns].drop_duplicates(keys).reset_index(drop=True)
    short = [_short(row, found) for row in found.to_dict("records")]
    found["label"] = unique_labels(short, most)
    found["name"] = [shorten(visible(text), most) for text in short]
    found["hover"] = [_long(row) for row in found[keys].to_dict("records")]
    return found


def _short(row: Mapping[Any, Any], found: pd.DataFrame) -> str:
    several = {name: name in found and found[name].nunique() > 1 for name in _IDENTITY}
    if "kernel" not in row and "short_name" in row:
        return " · ".join([str(row["short_name"]), *(str(row[name]) for name in ("workload", "gpu") if several[name])])
    if "kernel" in row:
        same_name = found[found["short_name"] == row["short_name"]]
        parts = [str(row["short_name"])]
        if len(same_name.drop_duplicates(["grid"])) > 1 and row["grid"]:
            parts.append(f"grid {row['grid']}")
        if "kernel_id" in row and len(same_name) > 1:
            parts.append(f"launch {row['kernel_id']}")
        parts += [str(row[name]) for name in ("workload", "gpu") if several[name]]
        return " · ".join(parts)
    parts = [str(row["workload"])]
    parts += [str(row[name]) for name in ("gpu", "dataset") if several[name]]
    return " · ".join(parts)


def _long(row: Mapping[Any, Any]) -> str:
    if "kernel" not in row and "short_name" in row:
        return f"<b>{full(row['short_name'])}</b>, all sizes<br>{full(row['workload'])} on {full(row['gpu'])}"
    if "kernel" not in row:
        return f"<b>{full(row['workload'])}</b><br>{full(row['gpu'])}"
    shape = f"<br>grid {full(row['grid'] or '–')}, block {full(row['block'] or '–')}"
    return f"<b>{full(row['kernel'])}</b>{shape}<br>{full(row['workload'])} on {full(row['gpu'])}"


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
