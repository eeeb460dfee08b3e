"""What a trained model says: its card, its prediction for a set of jobs and why, and what it looks at overall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.charts.explanations import importance_bars, waterfall
from analysis.interference.finding import counted, named
from analysis.interference.metrics import fairness, stp, together_per_100
from analysis.numbers import significant, slowdown
from analysis.predict.explain.explain import Explanation
from analysis.predict.explain.importance import GlobalImportance
from analysis.predict.frame.naming import OWNERS
from analysis.predict.models import unanswered
from analysis.predict.models.jobs import JobPrediction
from analysis.predict.models.manifest import Manifest
from analysis.report import comparison
from analysis.report.document import Block, Heading, Notice, Section, Text
from analysis.report.table import columns_of, figure, table
from analysis.store.queries.exclusions import REASON

#: Contributions listed one by one, and features of the whole model.
_LISTED, _FEATURES = 12, 20

_LEVELS: Mapping[str, Any] = {"share": "info", "measure first": "warning", "don't": "error"}

_SIMULATED = "The model learned from simulated runs, and so is everything that it predicts: nothing ran on a GPU."

_PREDICTIONS = columns_of(
    "workload/job", "slowdown", "low/interval", "high/interval", "measured", "thread_percentage", "evidence",
    "memory", "extrapolating", "verdict", slowdown={"low": "low", "high": "high"},
)  # fmt: skip
_CONTRIBUTIONS = columns_of("feature", "value", "whose", "group", "factor", "shap")
_IMPORTANCE = columns_of("feature", "whose", "group", "mean_abs")


#: Where a sum of contributions starts, in a chart.
STARTS = {"typical": "what is usual here", "sets": "what is usual for as many jobs", "alone": "the job alone"}


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
        blocks.append(Notice(level="warning", sentence=_SIMULATED))
    if answer.predictions:
        blocks += _prediction(answer)
        for explanation in answer.explanations:
            blocks += _explanation(explanation)
    blocks += _results(card)
    if answer.importance is not None:
        blocks += _overall(answer.importance)
    return Section(key="model", title=f"What the model {card.model_id} says", blocks=tuple(blocks))


def answer_section(answer: ModelAnswer) -> Section:
    """Make the section of the verdict on a set of jobs and what each pays; what to measure stands in its own."""
    blocks = _prediction(answer, wanted=False)[1:]
    if answer.card.simulated:
        blocks.insert(0, Notice(level="warning", sentence=_SIMULATED))
    return Section(key="answer", title=f"May they share {answer.gpu}?", blocks=tuple(blocks))


def why_section(answer: ModelAnswer) -> Section:
    """Make the section of what each prediction is made of."""
    blocks = [block for explanation in answer.explanations for block in _explanation(explanation)]
    return Section(key="why", title="Why these numbers", blocks=tuple(blocks))


def about_section(answer: ModelAnswer, *, whole: bool = False) -> Section:
    """Make the section of the model's errors, and with `whole` of what it looks at."""
    blocks: list[Block] = [] if whole else [Text(sentences=(about(answer.card),))]
    if answer.card.simulated:
        blocks.append(Notice(level="warning", sentence=_SIMULATED))
    blocks += _results(answer.card)
    if whole and answer.importance is not None:
        blocks += _overall(answer.importance)
    return Section(key="model", title="How good the model is", blocks=tuple(blocks))


def about(card: Manifest) -> str:
    """Say what a model is and what it has seen."""
    if not card.runs:
        return f"{card.title}: it needs no training, and has seen no co-run; it works from stall profiles alone."
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
    if answer.card.predictor == unanswered.NAME:
        return f"Verdict on {' beside '.join(one.workload for one in answer.predictions)}: {first.verdict}. {first.why}"
    beyond = first.evidence != "measured" and any(one.extrapolating for one in answer.predictions)
    warning = " This goes beyond what the model has seen." if beyond else ""
    return f"Predicted on {answer.gpu}: {', '.join(costs)}.{warning} Verdict: {first.verdict}. {first.why}"


def _prediction(answer: ModelAnswer, *, wanted: bool = True) -> list[Block]:
    first = answer.predictions[0]
    every = [one.slowdown for one in answer.predictions]
    together = float(together_per_100(stp(every)))
    # Without a model there is nothing to be beyond.
    unknown = {"extrapolating": None} if answer.card.predictor == unanswered.NAME else {}
    said = memory_words(first.memory)
    if math.isfinite(together) and first.memory != "does_not_fit":
        said += (
            f" While all of them run, they do in {together:.0f} min what takes 100 min one after the other, as "
            f"predicted (STP {significant(stp(every))}, fairness {significant(fairness(every))})."
        )
    blocks: list[Block] = [
        Heading(title=f"May they share {answer.gpu}?"),
        Notice(level=_LEVELS.get(first.verdict, "warning"), sentence=f"{first.verdict.capitalize()}: {first.why}"),
        Text(sentences=(said,)),
        table(
            "Predicted slowdowns" if math.isfinite(together) else "What is known of each",
            [one.to_json() | unknown for one in answer.predictions],
            _PREDICTIONS,
            caption=_interval_caption(first),
        ),
    ]
    beyond = ": " if unknown else " is beyond what the model has seen: "
    notes = [f"{one.workload}{beyond}{'; '.join(one.reasons)}." for one in answer.predictions if one.reasons]
    better = list(dict.fromkeys(text for one in answer.predictions for text in one.missing))
    if wanted and better:
        notes.append(f"What would make the answer better: {'; '.join(better)}.")
    return [*blocks, Text(sentences=tuple(notes))] if notes else blocks


def memory_words(memory: str) -> str:
    """Say whether a set's memory fits."""
    return {
        "fits": "Memory: they fit.",
        "tight": "Memory: tight, above 90 % of what the GPU has.",
        "does_not_fit": "Memory: they do not fit.",
    }.get(memory, "Memory: unknown.")


def _interval_caption(first: JobPrediction) -> str:
    if not math.isfinite(first.slowdown):
        return "No figure: no model answers here."
    if first.coverage is None:
        return f"No interval: no measured co-run of {1 + len(first.co_workloads)} jobs stands behind one."
    groups = f" with {first.groups} left-out groups" if first.groups else ""
    few = " With fewer than ten groups the level cannot be guaranteed." if first.groups and first.groups < 10 else ""
    return f"Interval at {first.coverage:.0f} %, calibrated under protocol {first.calibrated_by}{groups}.{few}"


def _explanation(explanation: Explanation) -> list[Block]:
    rows = explanation.table()
    rows["whose"] = rows["whose"].replace(dict(OWNERS))
    error = explanation.additivity_error
    start = "Alone" if explanation.start == "alone" else "The usual"
    caption = (
        f"{start} {slowdown(math.exp(explanation.base))} times all factors is {slowdown(explanation.slowdown)}; in "
        f"ln S they add up to within {error:.0e}. {explanation.method}"
    )
    return [
        Heading(title=f"Why {explanation.workload}"),
        Text(sentences=(explanation.sentence,)),
        figure(
            f"How the slowdown of {explanation.workload} comes about",
            waterfall(explanation.base, explanation.steps(), explanation.prediction, start=STARTS[explanation.start]),
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
        text = "The model's predictor was not evaluated when it was trained: no error is known."
        if not card.runs:
            text = "It was not scored on co-runs here, for there are none: how far off it is, is not known."
        blocks.append(Text(sentences=(text,)))
    return blocks


def _overall(importance: GlobalImportance) -> list[Block]:
    top = importance.table.head(_FEATURES)
    top = top.assign(whose=top["whose"].replace(dict(OWNERS)))
    caption = (
        f"Over {counted(len(importance.rows), 'training row')}; contributions add up to the prediction to within "
        f"{importance.additivity_error:.0e}. {importance.method}"
    )
    return [
        Heading(title="What the model looks at"),
        figure("Mean size of each feature's contribution", importance_bars(top, value="mean_abs", most=_FEATURES)),
        table("Features by mean size of their contribution", top, _IMPORTANCE, caption=caption),
    ]
