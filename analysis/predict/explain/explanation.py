"""An explanation as people read it: what each thing that they know adds to ln S, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.numbers import shorten, visible
from analysis.predict.explain.sentences import Start

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
