"""What to do next with what is in the database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.interference.decision import RUNS_FOR_SCORE


@dataclass(frozen=True)
class Step:
    """The next best step.

    Attributes
    ----------
    sentence : str
        Why.
    label : str
        Text of the button.
    page : str
        Page that it opens, by its name in `analysis.ui.shell.navigation`.
    """

    sentence: str
    label: str
    page: str


def next_step(counts: Mapping[str, int]) -> Step:
    """Choose the step that opens the most questions.

    Parameters
    ----------
    counts : mapping
        As `analysis.store.queries.sources.counts` returns it.
    """
    if not counts.get("sources"):
        return Step(
            "Nothing is loaded. Bring your own profiles and co-runs, or start from public measurements.",
            "Upload files",
            "upload",
        )
    if not counts["runs"]:
        return Step(
            "There are profiles and no co-runs: you can see why each job waits, not yet what sharing costs.",
            "See why jobs wait",
            "stalls",
        )
    if counts["runs"] < RUNS_FOR_SCORE:
        return Step(
            f"{counts['runs']} runs say who may share, and what their pairs add up to for larger sets; from "
            f"{RUNS_FOR_SCORE} on a model's errors can be scored.",
            "See who may share",
            "partners",
        )
    if not counts["evaluations"] and not counts["models"]:
        return Step(
            f"{counts['runs']:,} runs are enough to ask how well the slowdown of sets that never ran can be predicted.",
            "Train a predictor",
            "train",
        )
    if not counts["models"]:
        return Step("Predictors have been compared; train one to predict with.", "Train a predictor", "train")
    return Step("A model is ready: ask it about jobs that may share a GPU.", "Ask about a set of jobs", "what-if")


def answerable(counts: Mapping[str, int]) -> dict[str, bool]:
    """Say which questions the data can answer: question to yes or no."""
    return {
        "Why does a job wait?": counts["profiles"] > 0,
        "Who hurts whom?": counts["runs"] > 0,
        "How well can slowdown be predicted here?": counts["runs"] >= RUNS_FOR_SCORE,
        "What will a set that never ran cost?": counts["models"] > 0 or counts["runs"] > 1,
    }
