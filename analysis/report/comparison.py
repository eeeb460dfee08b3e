"""The comparison of predictors as a table: every figure with its interval, its protocol and the baselines beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from analysis.charts.comparison_bars import comparison_bars
from analysis.interference.finding import named
from analysis.report.document import Column, Table
from analysis.report.table import columns_of, table

#: What a person reads of a comparison; `records` makes the rows.
COLUMNS: tuple[Column, ...] = columns_of(
    "title/predictor", "mape", "mape_low", "mape_high", "median_ape", "p95_ape", "within_10", "bias", "spearman",
    "skill", "coverage", "width", "n", mape={"low": "mape_low", "high": "mape_high"},
)  # fmt: skip

#: The project's own predictor, and the two that every figure has to stand beside.
DEFAULT, NO_INTERFERENCE, MEDIAN = "stallscope", "no-interference", "train-median"


def records(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of an evaluation with the ends of the interval as fields of their own and a title for people."""
    made = []
    for row in rows:
        low, high = row.get("mape_ci") or (None, None)
        made.append({**row, "title": row.get("title") or row["predictor"], "mape_low": low, "mape_high": high})
    return made


def evaluation_table(result: Mapping[str, Any]) -> Table:
    """Make the table of one evaluation.

    Parameters
    ----------
    result : mapping
        What `analysis.predict.evaluate.comparison.Evaluation.summary` returns, as stored.

    Returns
    -------
    Table
        Predictors with figures, the best first; those whose inputs are missing are in `missing_inputs`.
    """
    rows = sorted((row for row in records(result["rows"]) if row["mape"] is not None), key=lambda row: row["mape"])
    strong = tuple(index for index, row in enumerate(rows) if row["predictor"] == DEFAULT)
    caption = (
        f"Protocol {result['protocol']}: {result['sentence']}. MAPE over all test members with its 95 % interval over "
        f"workloads; {result['n']:,} members of {result['runs']:,} runs of {result['workloads']} workloads. Negative "
        "bias is too optimistic; n counts a member once in every fold that holds it out. "
        "Skill is the part of the train median's error that is gone."
    )
    where = f"{named(result['gpus'])}, {named(result['mechanisms'])}"
    title = f"Prediction error on {where}, protocol {result['protocol']}"
    made = table(f"{title}, simulated" if result["simulated"] else title, rows, COLUMNS, caption=caption)
    return made.model_copy(update={"strong": strong})


def bars(result: Mapping[str, Any]) -> go.Figure:
    """Draw the errors of one evaluation, the best first."""
    rows = sorted((row for row in records(result["rows"]) if row["mape"] is not None), key=lambda row: row["mape"])
    frame = pd.DataFrame(rows, columns=["title", "predictor", "mape", "mape_low", "mape_high"])
    own = [str(row["title"]) for row in rows if row["predictor"] == DEFAULT]
    return comparison_bars(frame, label="title", low="mape_low", high="mape_high", emphasised=own)


def missing_inputs(result: Mapping[str, Any]) -> str:
    """Say which predictors have no figure and why; empty when all have one."""
    reasons: dict[str, list[str]] = {}
    for row in records(result["rows"]):
        if row["mape"] is None:
            reasons.setdefault(str(row["status"]), []).append(str(row["title"]))
    if len(reasons) == 1 and all(row["mape"] is None for row in records(result["rows"])):
        ((reason, names),) = reasons.items()
        return f"None of {len(names)} predictors has a figure: {reason.replace('needs: ', 'needed are ')}."
    parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    return f"Without a figure: {'; '.join(parts)}." if parts else ""


#: What the evaluation of KACE as published is told in.
AS_PUBLISHED: tuple[Column, ...] = columns_of(
    "times", "training", "linear", "forest", "linear_sound", "forest_sound", "slowdown_error", "impossible"
)
