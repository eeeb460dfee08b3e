"""Why a prediction is what it is: contributions summed back to what people know, and a sentence that claims no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError
from analysis.predict.explain.background import of_training
from analysis.predict.explain.explanation import Contribution, Explanation, sentence, summed
from analysis.predict.explain.shapley import contributions
from analysis.predict.explain.whitebox_causes import explained
from analysis.predict.frame.naming import by_feature, shown_value
from analysis.predict.models import models
from analysis.predict.models.gather import gather
from analysis.predict.models.unanswered import Unanswered
from analysis.predict.predictors.contributions import Contributions
from analysis.predict.predictors.whitebox import WhiteBox
from analysis.store.database import Database

__all__ = ["Contribution", "Explanation", "explain", "explanations"]


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
    NotEnoughDataError
        If the explainer lacks training rows, or there is no model at all.
    """
    manifest, estimator = models.load(database, model_id)
    if isinstance(estimator, Unanswered):
        raise NotEnoughDataError("there is no model, and so no prediction to explain", "Train one first.")
    found = gather(database, manifest, gpu, jobs, mechanism, dataset, caps)
    if isinstance(estimator, WhiteBox):
        broken_down = explained(found)
        if broken_down is not None:
            return broken_down
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
                by_whose=summed(listed, "whose"),
                by_group=summed(listed, "group"),
                sentence=sentence(
                    own,
                    base,
                    prediction,
                    [(one.feature, one.shap) for one in listed],
                    parts.start,
                    parts.error,
                    1 + len(others),
                    summed(listed, "group"),
                ),
                method=parts.method,
                additivity_error=abs(base + sum(one.shap for one in listed) - prediction),
                start=parts.start,
            )
        )
    return found
