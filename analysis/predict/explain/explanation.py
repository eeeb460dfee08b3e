"""An explanation as people read it: what each thing that they know adds to ln S, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.numbers import shorten, visible
from analysis.predict.predictors.contributions import Start

#: A contribution below this in ln S (2 % of S) is never named as a cause.
LEAST = 0.02

#: Nor is one that is less than this part of the largest.
PART_OF_LARGEST = 0.15

#: At most so many causes in each direction.
MOST_NAMED = 3


def causes(
    contributions: Sequence[tuple[str, float]], error: float = 0.0
) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """Return the contributions that may be named, those that slow down and those that relieve, largest first.

    A sampled contribution has to be twice its standard error `error`.
    """
    largest = max((abs(value) for _, value in contributions), default=0.0)
    least = max(LEAST, PART_OF_LARGEST * largest, 2.0 * error)
    named = sorted((item for item in contributions if abs(item[1]) >= least), key=lambda item: -abs(item[1]))
    return [item for item in named if item[1] > 0][:MOST_NAMED], [item for item in named if item[1] < 0][:MOST_NAMED]


def rest_in_words(contributions: Sequence[tuple[str, float]], named: Sequence[tuple[str, float]]) -> str:
    """Say what those that are not named make together, where that is more than the largest that is; else nothing."""
    rest = sum(value for _, value in contributions) - sum(value for _, value in named)
    if not named or abs(rest) < max(LEAST, abs(named[0][1]), *(abs(value) for _, value in named)):
        return ""
    return f"The other {len(contributions) - len(named)}, each small, make x {np.exp(rest):.2f} together."


def sentence(
    workload: str,
    base: float,
    prediction: float,
    contributions: Sequence[tuple[str, float]],
    start: Start = "typical",
    error: float = 0.0,
    jobs: int = 2,
    groups: Mapping[str, float] | None = None,
) -> str:
    """Say why a job is predicted to slow down as it is.

    Parameters
    ----------
    workload : str
        The job.
    base, prediction : float
        ln S.
    contributions : sequence of (str, float)
        Features and their parts of ln S.
    start : {"typical", "sets", "alone"}
        What the base is: a typical slowdown, that of sets of as many jobs, or the job alone, which no model has to
        learn.
    error : float
        Standard error of a sampled contribution, ln S.
    jobs : int
        Jobs in the set.
    groups : mapping of str to float, optional
        The contributions summed by stall group or resource.

    Returns
    -------
    str
        Two or three sentences; factors multiply the typical slowdown to the predicted one.
    """
    typical, predicted = float(np.exp(base)), float(np.exp(prediction))
    sets = f"usual for {jobs} jobs at once{', put together from pairs,' if jobs > 2 else ''}"
    usual = {"typical": "usual for this model", "sets": sets, "alone": ""}[start]
    beside = f"; {usual} is {typical:.2f}" if usual else ""
    head = f"{workload} is predicted to take {predicted:.2f} times its solo time{beside}."
    if start == "alone" and len(contributions) == 1:
        return f"{head} All of it comes from one figure: {contributions[0][0]}."
    worse, better = causes(contributions, error)
    parts = [head]
    if worse:
        parts.append(f"Up: {_listed(worse)}.")
    if better:
        parts.append(f"Down: {_listed(better)}.")
    if rest := rest_in_words(contributions, [*worse, *better]):
        parts.append(rest)
    if groups and (worse or better):
        most = max(groups, key=lambda name: abs(groups[name]))
        if abs(groups[most]) >= max(LEAST, 2.0 * error):
            where = "what was measured before" if most == "measured before" else most
            parts.append(f"By stall group and resource most comes from {where}: x {np.exp(groups[most]):.2f}.")
    if not worse and not better:
        least = 100 * float(np.expm1(max(LEAST, 2.0 * error)))
        parts.append(f"No single feature moves it by more than {least:.0f} %.")
    return " ".join(parts)


def _listed(items: Sequence[tuple[str, float]]) -> str:
    return "; ".join(f"{feature} (x {np.exp(value):.2f})" for feature, value in items)


#: Stands between a resource and who takes it.
TAKEN = ", taken by "


@dataclass(frozen=True)
class Contribution:
    """What one thing that people know adds to ln S.

    Attributes
    ----------
    feature : str
        Such as ``kernel length of the co-runners``.
    whose, what, group : str
        Whose it is; the kind of evidence; the stall group or resource.
    value : str
        Its value, with unit.
    shap : float
        Its part of ln S; exp(shap) is the factor on S.
    """

    feature: str
    whose: str
    what: str
    group: str
    value: str
    shap: float

    @property
    def factor(self) -> float:
        """The contribution as a factor on S."""
        return float(np.exp(self.shap))


@dataclass(frozen=True)
class Explanation:
    """Why one job of a set is predicted to slow down as it is.

    Attributes
    ----------
    workload, co_workloads
        The job and the others.
    base, prediction : float
        ln S: where the sum starts, and what it reaches.
    contributions : tuple of Contribution
        The largest first.
    by_whose, by_group : dict of str to float
        The same, summed.
    sentence : str
        The explanation in words.
    method : str
        How the contributions were computed.
    additivity_error : float
        |base + sum - prediction|.
    start : {"typical", "sets", "alone"}
        What the base is: a typical slowdown, that of sets of as many jobs, or the job alone.
    """

    workload: str
    co_workloads: tuple[str, ...]
    base: float
    prediction: float
    contributions: tuple[Contribution, ...]
    by_whose: dict[str, float]
    by_group: dict[str, float]
    sentence: str
    method: str
    additivity_error: float
    start: Start = "typical"

    @property
    def slowdown(self) -> float:
        """The prediction as S."""
        return float(np.exp(self.prediction))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def steps(self) -> list[dict[str, Any]]:
        """Return the contributions for `charts.waterfall`, with labels short enough for an axis."""
        return [{**asdict(one), "whose": None, "feature": _on_axis(one.feature)} for one in self.contributions]

    def table(self) -> pd.DataFrame:
        """Return one row a contribution: feature, whose, what, group, value, shap, factor."""
        return pd.DataFrame(
            [{**asdict(one), "factor": one.factor} for one in self.contributions],
            columns=["feature", "whose", "what", "group", "value", "shap", "factor"],
        )


def summed(listed: Sequence[Contribution], by: str) -> dict[str, float]:
    """Return the contributions summed by one of their words, the largest first."""
    sums: dict[str, float] = {}
    for one in listed:
        sums[getattr(one, by)] = sums.get(getattr(one, by), 0.0) + one.shap
    return dict(sorted(sums.items(), key=lambda item: -abs(item[1])))


def _on_axis(feature: str) -> str:
    """Return a label whose resource stays whole where a co-runner's long name follows it."""
    resource, taken, by = feature.partition(TAKEN)
    return f"{resource} ← {shorten(visible(by), 18)}" if taken else feature
