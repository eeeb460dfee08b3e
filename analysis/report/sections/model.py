"""What a trained model says: its card, its prediction for a set of jobs and why, and what it looks at overall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.charts.explanations import importance_bars, waterfall
from analysis.interference.finding import counted, named
from analysis.interference.metrics import stp, together_per_100
from analysis.numbers import slowdown
from analysis.predict.explain import Explanation, GlobalImportance
from analysis.predict.jobs import JobPrediction
from analysis.predict.manifest import Manifest
from analysis.report import comparison
from analysis.report.document import Block, Heading, Notice, Section, Text
from analysis.report.table import column, figure, table
from analysis.store.queries.exclusions import REASON

#: Contributions listed one by one, and features of the whole model.
_LISTED, _FEATURES = 12, 20

_LEVELS: Mapping[str, Any] = {"share": "info", "measure first": "warning", "don't": "error"}

_PREDICTIONS = (
    column("workload", "job"),
    column("slowdown", "slowdown", "ratio", low="low", high="high"),
    column("low", "slowdown, low", "ratio"),
    column("high", "slowdown, high", "ratio"),
    column("measured", "measured", "ratio"),
    column("evidence", "evidence"),
    column("memory", "memory"),
    column("extrapolating", "beyond the data", "flag"),
    column("verdict", "verdict"),
)
_CONTRIBUTIONS = (
    column("feature", "because of"),
    column("value", "value"),
    column("whose", "whose"),
    column("group", "group"),
    column("factor", "factor on S", "ratio"),
    column("shap", "ln S", "number"),
)
_IMPORTANCE = (
    column("feature", "feature"),
    column("whose", "whose"),
    column("group", "group"),
    column("mean_abs", "mean |SHAP| in ln S", "number"),
)


@dataclass(frozen=True)
class ModelAnswer:
    """What was asked of a model for the report.

    Attributes
    ----------
    card : Manifest
        The model.
    gpu : str
        Where the jobs would run.
    predictions, explanations : sequence
        One a job; empty where no jobs were named.
    importance : GlobalImportance or None
        Over the training data, where it is still loaded.
    """

    card: Manifest
    gpu: str
    predictions: Sequence[JobPrediction] = ()
    explanations: Sequence[Explanation] = ()
    importance: GlobalImportance | None = None


def section(answer: ModelAnswer) -> Section:
    """Make the section of a model."""
    card = answer.card
    blocks: list[Block] = [Text(sentences=(about(card),))]
    if card.simulated:
        blocks.append(
            Notice(level="warning", sentence="The model learned from simulated runs; so is everything it predicts.")
        )
    if answer.predictions:
        blocks += _prediction(answer)
        for explanation in answer.explanations:
            blocks += _explanation(explanation)
    blocks += _results(card)
    if answer.importance is not None:
        blocks += _overall(answer.importance)
    return Section(key="model", title=f"What the model {card.model_id} says", blocks=tuple(blocks))


def about(card: Manifest) -> str:
    """Say what a model is and what it has seen."""
    return (
        f"{card.title}, learned from {counted(card.rows, 'member')} of {counted(card.runs, 'run')} of {card.dataset} "
        f"on {named(card.gpus)} under {named(card.mechanisms)}, {counted(len(card.workloads), 'workload')}."
        f"{_left_out(card)}"
    )


def _left_out(card: Manifest) -> str:
    """Say what the user left out of a model's data; empty where nothing was."""
    parts = [
        f"{counted(number, 'member')} ({reason.removeprefix(REASON)})"
        for reason, number in card.left_out.items()
        if reason.startswith(REASON)
    ]
    return f" The user left out of its data, by rule: {', '.join(parts)}." if parts else ""


def sentence(answer: ModelAnswer) -> str | None:
    """Say the verdict on the set in one sentence; None where no jobs were named."""
    if not answer.predictions:
        return None
    costs = [f"{one.workload} {slowdown(one.slowdown, one.low, one.high)}" for one in answer.predictions]
    first = answer.predictions[0]
    return f"Predicted on {answer.gpu}: {', '.join(costs)}. Verdict: {first.verdict}. {first.why}"


def _prediction(answer: ModelAnswer) -> list[Block]:
    first = answer.predictions[0]
    together = float(together_per_100(stp([one.slowdown for one in answer.predictions])))
    said = f"Together {together:.0f} min for what takes 100 min one after the other, as predicted."
    blocks: list[Block] = [
        Heading(title=f"May they share {answer.gpu}?"),
        Notice(level=_LEVELS.get(first.verdict, "warning"), sentence=f"{first.verdict.capitalize()}: {first.why}"),
        Text(sentences=(said,)),
        table(
            "Predicted slowdowns",
            [one.to_json() for one in answer.predictions],
            _PREDICTIONS,
            caption=_interval_caption(first),
        ),
    ]
    notes = [
        f"{one.workload} is beyond what the model has seen: {'; '.join(one.reasons)}."
        for one in answer.predictions
        if one.reasons
    ]
    wanted = list(dict.fromkeys(text for one in answer.predictions for text in one.missing))
    if wanted:
        notes.append(f"What would make the answer better: {'; '.join(wanted)}.")
    return [*blocks, Text(sentences=tuple(notes))] if notes else blocks


def _interval_caption(first: JobPrediction) -> str:
    if first.coverage is None:
        return "No interval: no measured co-run stands behind one."
    groups = f" with {first.groups} left-out groups" if first.groups else ""
    few = " With fewer than ten groups the level cannot be guaranteed." if first.groups and first.groups < 10 else ""
    return f"Interval at {first.coverage:.0f} %, calibrated under protocol {first.calibrated_by}{groups}.{few}"


def _explanation(explanation: Explanation) -> list[Block]:
    rows = explanation.table()
    contributions = [{**vars(one)} for one in explanation.contributions]
    error = explanation.additivity_error
    caption = (
        f"The typical {slowdown(math.exp(explanation.base))} times all factors is {slowdown(explanation.slowdown)}; in "
        f"ln S they add up to within {error:.0e}. {explanation.method}"
    )
    return [
        Heading(title=f"Why {explanation.workload}"),
        Text(sentences=(explanation.sentence,)),
        figure(
            f"From the typical slowdown to that of {explanation.workload}",
            waterfall(explanation.base, contributions, explanation.prediction),
        ),
        table(
            f"Contributions to the slowdown of {explanation.workload}",
            rows.head(_LISTED),
            _CONTRIBUTIONS,
            caption=caption if len(rows) <= _LISTED else f"The {_LISTED} largest of {len(rows)}. {caption}",
        ),
    ]


def _results(card: Manifest) -> list[Block]:
    """The model's predictor beside the two references, as evaluated when it was trained."""
    blocks: list[Block] = []
    known = [row for row in card.protocol_results if row["mape"] is not None]
    for protocol in dict.fromkeys(str(row["protocol"]) for row in known):
        rows = [row for row in known if row["protocol"] == protocol]
        # The references alone would say nothing about this model.
        if any(row["predictor"] == card.predictor for row in rows):
            caption = f"Protocol {protocol}, evaluated on {card.dataset} before the model was trained."
            title = f"Error of the model's predictor, protocol {protocol}"
            blocks.append(table(title, comparison.records(rows), comparison.COLUMNS, caption=caption))
    if not blocks:
        blocks.append(
            Text(sentences=("The model's predictor was not evaluated when it was trained: no error is known.",))
        )
    return blocks


def _overall(importance: GlobalImportance) -> list[Block]:
    top = importance.table.head(_FEATURES)
    caption = (
        f"Over {counted(len(importance.rows), 'training row')}; contributions add up to the prediction to within "
        f"{importance.additivity_error:.0e}. {importance.method}"
    )
    return [
        Heading(title="What the model looks at"),
        figure("Mean size of each feature's contribution", importance_bars(top, value="mean_abs", most=_FEATURES)),
        table("Features by mean size of their contribution", top, _IMPORTANCE, caption=caption),
    ]
