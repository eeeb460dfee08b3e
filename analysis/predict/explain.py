"""Why a prediction is what it is: contributions summed back to what people know, and a sentence that claims no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.predict import models
from analysis.predict.background import of_training
from analysis.predict.gather import gather
from analysis.predict.naming import by_feature, shown_value
from analysis.predict.sentences import Start, sentence
from analysis.predict.shapley import Contributions, contributions
from analysis.store.database import Database


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
    start : {"typical", "alone"}
        What the base is: a typical slowdown, or the job alone.
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

    def table(self) -> pd.DataFrame:
        """Return one row a contribution: feature, whose, what, group, value, shap, factor."""
        return pd.DataFrame(
            [{**asdict(one), "factor": one.factor} for one in self.contributions],
            columns=["feature", "whose", "what", "group", "value", "shap", "factor"],
        )


def explain(
    database: Database,
    model_id: str,
    gpu: str,
    jobs: Sequence[str],
    mechanism: str | None = None,
    dataset: str | None = None,
    caps: Sequence[float | None] | None = None,
) -> list[Explanation]:
    """Explain a model's prediction for every job of a set.

    Parameters
    ----------
    database, model_id, gpu, jobs, mechanism, dataset, caps
        As in `models.predict`.

    Returns
    -------
    list of Explanation
        One a job, in the order given.

    Raises
    ------
    NotFoundError
        If there is no such model or job.
    """
    manifest, estimator = models.load(database, model_id)
    found = gather(database, manifest, gpu, jobs, mechanism, dataset, caps)
    parts = contributions(estimator, found.X, of_training(database, manifest, estimator))
    predicted = np.asarray(estimator.predict(found.X), dtype=np.float64)
    return explanations(found.X, parts, predicted)


def explanations(X: pd.DataFrame, parts: Contributions, predicted: np.ndarray) -> list[Explanation]:
    """Turn contributions by column into explanations by feature, one a row."""
    found = []
    distinct, sums = by_feature(parts.values)
    for row in range(len(X)):
        about = X.iloc[row]
        order = np.argsort(-np.abs(sums[row]), kind="stable")
        ordered = [(distinct[place], float(sums[row, place])) for place in order]
        listed = tuple(
            Contribution(feature.label, feature.whose, feature.what, feature.group, shown_value(feature, about), value)
            for feature, value in ordered
        )
        base, prediction = float(parts.base[row]), float(predicted[row])
        own, others = str(about["workload"]), tuple(about["others"])
        found.append(
            Explanation(
                workload=own,
                co_workloads=others,
                base=base,
                prediction=prediction,
                contributions=listed,
                by_whose=_summed(listed, "whose"),
                by_group=_summed(listed, "group"),
                sentence=sentence(
                    own, base, prediction, [(one.feature, one.shap) for one in listed], parts.start, parts.error
                ),
                method=parts.method,
                additivity_error=abs(base + sum(one.shap for one in listed) - prediction),
                start=parts.start,
            )
        )
    return found


def _summed(listed: Sequence[Contribution], by: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in listed:
        sums[getattr(one, by)] = sums.get(getattr(one, by), 0.0) + one.shap
    return dict(sorted(sums.items(), key=lambda item: -abs(item[1])))
