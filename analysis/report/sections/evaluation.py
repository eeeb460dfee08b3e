"""How well slowdowns can be predicted here: stored evaluations, one table each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.interference.finding import counted, named
from analysis.numbers import significant
from analysis.report import comparison
from analysis.report.document import Block, Notice, Section, Text


def section(results: Sequence[Mapping[str, Any]], dataset: str) -> Section:
    """Make the section of the newest evaluation of each protocol."""
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
        blocks.append(comparison.evaluation_table(result))
        notes = [comparison.missing_inputs(result), _left_out(result)]
        if any(notes):
            blocks.append(Text(sentences=tuple(note for note in notes if note)))
    return Section(key="evaluation", title="How well it can be predicted", blocks=tuple(blocks))


def sentence_of(result: Mapping[str, Any]) -> str | None:
    """Say how far off the predictor is, beside both reference predictors; None where nothing has a score."""
    rows = {row["predictor"]: row for row in comparison.records(result["rows"]) if row["mape"] is not None}
    chosen = rows.get(comparison.DEFAULT) or min(rows.values(), key=lambda row: row["mape"], default=None)
    if chosen is None:
        return None
    figure = f"{significant(chosen['mape'])} %"
    if chosen["mape_low"] is not None:
        figure += f" ({significant(chosen['mape_low'])} to {significant(chosen['mape_high'])})"
    said = f"Under protocol {result['protocol']}, {chosen['title']} is off by {figure} on average"
    beside = [
        f"{label} by {significant(rows[name]['mape'])} %"
        for name, label in ((comparison.MEDIAN, "the train median"), (comparison.NO_INTERFERENCE, "no interference"))
        if name in rows and rows[name] is not chosen
    ]
    return f"{said}; {', '.join(beside)}." if beside else f"{said}."


def _left_out(result: Mapping[str, Any]) -> str:
    parts = [f"{counted(number, 'member')} ({reason})" for reason, number in (result.get("left_out") or {}).items()]
    said = f"Left out: {', '.join(parts)}." if parts else ""
    if result.get("flagged"):
        said += f" Flagged workloads: {named(result['flagged'], 8)}."
    return said
