"""A comparison of predictors on a page: which one to believe, beside the plain baselines, with its protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.numbers import significant
from analysis.ui.shell import frame, markdown

#: Baselines that stand beside every figure.
MEDIAN, NONE = "train-median", "no-interference"

_COLUMNS: dict[str, Any] = {
    "title": st.column_config.TextColumn("Predictor", width="medium", pinned=True),
    "mape": st.column_config.NumberColumn(
        "Error, %", format="%.1f", help="Mean absolute percentage error of slowdown."
    ),
    "interval": st.column_config.TextColumn("95 % interval", help="Bootstrap over workloads, in percent."),
    "skill": st.column_config.NumberColumn("Skill", format="%.2f", help="1 - error / error of the train median."),
    "status": st.column_config.TextColumn("Status", width="medium"),
    "within_10": st.column_config.NumberColumn("Within 10 %, %", format="%.0f"),
    "bias": st.column_config.NumberColumn("Bias, %", format="%.1f", help="Below 0: slowdown is predicted too small."),
    "coverage": st.column_config.NumberColumn("Coverage, %", format="%.0f", help="Of intervals meant to hold 90 %."),
    "width": st.column_config.NumberColumn("Interval width, x", format="%.2f"),
    "mape_folds": st.column_config.NumberColumn("Mean over folds, %", format="%.1f"),
    "median_ape": st.column_config.NumberColumn("Median, %", format="%.1f"),
    "p95_ape": st.column_config.NumberColumn("95th percentile, %", format="%.1f"),
    "spearman": st.column_config.NumberColumn("Rank correlation", format="%.2f"),
    "n": st.column_config.NumberColumn("Members", format="localized"),
}


def scored(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows that have a figure, the best first."""
    have = [row for row in rows if row["mape"] is not None and not math.isnan(row["mape"])]
    return sorted(have, key=lambda row: float(row["mape"]))


def sentence(result: Mapping[str, Any]) -> str:
    """Say which predictor is best under the protocol, and what the plain baselines reach."""
    best = next((row for row in scored(result["rows"]) if row["predictor"] not in (MEDIAN, NONE)), None)
    plain = {row["predictor"]: row["mape"] for row in result["rows"]}
    protocol = markdown.plain(result["protocol"])
    if best is None:
        baselines = _baselines(plain)
        if baselines:
            return f"Only the baselines were scored under {protocol}: {' and '.join(baselines)}."
        needs = next((row["status"] for row in result["rows"] if row["status"] != "ok"), "no predictor has its inputs")
        return f"No score under {protocol}: {markdown.plain(needs, 200)}."
    text = f"**{markdown.plain(best['title'])}** is off by **{significant(best['mape'])} %** under {protocol}"
    if best["mape_ci"]:
        low, high = best["mape_ci"]
        text += f" ({significant(low)} to {significant(high)} over workloads)"
    baselines = _baselines(plain)
    text += f"; {' and '.join(baselines)}" if baselines else ""
    beaten = plain.get(MEDIAN) is not None and best["mape"] >= plain[MEDIAN]
    return text + (". It has learnt nothing that the median does not know." if beaten else ".")


def _baselines(errors: Mapping[str, Any]) -> list[str]:
    return [
        f"{words} {significant(errors[name])} %"
        for name, words in ((MEDIAN, "the train median"), (NONE, "no interference"))
        if errors.get(name) is not None
    ]


def frame_of(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return the comparison as a table for people: the best first, then those that lack their inputs."""
    table = pd.DataFrame(list(result["rows"]))
    table["interval"] = [
        f"{ci[0]:.1f} to {ci[1]:.1f}" if isinstance(ci, list | tuple) else "" for ci in table["mape_ci"]
    ]
    ordered = table.sort_values("mape", na_position="last", kind="stable").reset_index(drop=True)
    columns = [name for name in _COLUMNS if name in ordered]
    if (ordered["status"] == "ok").all():
        columns.remove("status")
    return ordered[columns]


def show_table(result: Mapping[str, Any], *, name: str) -> None:
    """Show all figures of a comparison."""
    table = frame_of(result)
    frame.data(table, name=name, columns=_COLUMNS, height="content")


def basis(result: Mapping[str, Any]) -> None:
    """Say what the figures rest on, and what was left out."""
    left = "; ".join(f"{number:,} {reason}" for reason, number in result["left_out"].items() if number)
    frame.basis(
        frame.count(result["n"], "member"),
        frame.count(result["runs"], "run"),
        frame.count(result["workloads"], "workload"),
        ", ".join(result["gpus"]),
        ", ".join(result["mechanisms"]),
        f"left out: {left}" if left else "",
        simulated=bool(result["simulated"]),
        protocol=str(result["protocol"]),
    )
    frame.caveats([str(note) for note in result.get("notes", [])])
