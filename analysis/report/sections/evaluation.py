"""How well slowdowns can be predicted here: stored evaluations, one table each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.charts.predictions import predicted_vs_measured
from analysis.interference.finding import counted, named
from analysis.numbers import significant
from analysis.report import comparison
from analysis.report.document import Block, Notice, Section, Text
from analysis.report.table import figure


def section(results: Sequence[Mapping[str, Any]], held_out: Callable[[str, str], pd.DataFrame]) -> Section:
    """Make the section of the newest evaluation of each protocol.

    Parameters
    ----------
    results : sequence of mapping
        Stored evaluations, as `analysis.predict.evaluate.comparison.Evaluation.summary` returns them.
    held_out : callable
        Gives the out-of-fold predictions of an evaluation's id and a predictor.
    """
    blocks: list[Block] = []
    if not results:
        sentence = (
            "No predictor was evaluated on this data set yet; `stallscope evaluate` or the Train page does it, and the "
            "next report shows the figures."
        )
        return Section(key="evaluation", title="How well it can be predicted", blocks=(Text(sentences=(sentence,)),))
    for result in results:
        said = sentence_of(result)
        if said:
            blocks.append(Text(sentences=(said,)))
        if result.get("leaky"):
            blocks.append(
                Notice(
                    level="error",
                    sentence=f"Protocol {result['protocol']} lets twins of the test rows into training. Its figures "
                    "are a contrast and say nothing about unseen pairs.",
                )
            )
        made = comparison.evaluation_table(result)
        blocks.append(figure(f"{made.title}, with 95 % intervals over workloads", comparison.bars(result)))
        blocks.append(made)
        chosen = _chosen(result)
        if chosen is not None:
            title = f"{chosen['title']}: predicted against measured, protocol {result['protocol']}"
            points = _points(held_out(str(result["evaluation_id"]), str(chosen["predictor"])))
            if len(points):
                blocks.append(figure(title, predicted_vs_measured(points)))
        notes = [comparison.missing_inputs(result), *result.get("notes", []), _left_out(result)]
        if any(notes):
            blocks.append(Text(sentences=tuple(note for note in notes if note)))
    return Section(key="evaluation", title="How well it can be predicted", blocks=tuple(blocks))


def sentence_of(result: Mapping[str, Any]) -> str | None:
    """Say how far off the predictor is, beside both reference predictors; None where nothing has a score."""
    chosen = _chosen(result)
    if chosen is None:
        return None
    rows = {row["predictor"]: row for row in comparison.records(result["rows"]) if row["mape"] is not None}
    figure = f"{significant(chosen['mape'])} %"
    if chosen["mape_low"] is not None:
        figure += f" ({significant(chosen['mape_low'])} to {significant(chosen['mape_high'])})"
    said = f"Under protocol {result['protocol']}, {chosen['title']} is off by {figure} on average"
    beside = [
        f"{label} by {significant(rows[name]['mape'])} %"
        for name, label in ((comparison.MEDIAN, "the train median"), (comparison.NO_INTERFERENCE, "no interference"))
        if name in rows and name != chosen["predictor"]
    ]
    return f"{said}; {', '.join(beside)}." if beside else f"{said}."


def _chosen(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row that is spoken of: the project's own predictor, else the one with the smallest error."""
    rows = {row["predictor"]: row for row in comparison.records(result["rows"]) if row["mape"] is not None}
    return rows.get(comparison.DEFAULT) or min(rows.values(), key=lambda row: float(row["mape"]), default=None)


def _points(predictions: pd.DataFrame) -> pd.DataFrame:
    """Bring the predictions of several seeds to one point a member."""
    if predictions.empty:
        return predictions
    predictions = predictions.assign(beside=[", ".join(names) for names in predictions["co_workloads"]])
    keys = ["run_id", "slot", "workload", "beside"]
    return predictions.groupby(keys, as_index=False, dropna=False)[["measured", "predicted", "low", "high"]].mean()


def _left_out(result: Mapping[str, Any]) -> str:
    parts = [f"{counted(number, 'member')} ({reason})" for reason, number in (result.get("left_out") or {}).items()]
    said = f"Left out: {', '.join(parts)}." if parts else ""
    if result.get("flagged"):
        said += f" Flagged workloads: {named(result['flagged'], 8)}."
    return said
