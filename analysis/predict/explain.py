"""Why a prediction is what it is: contributions summed back to what people know, and a sentence that claims no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError
from analysis.predict import features, models
from analysis.predict.gather import gather
from analysis.predict.manifest import Manifest
from analysis.predict.naming import feature_of, shown_value
from analysis.predict.schema import Floats
from analysis.predict.sentences import Start, sentence
from analysis.predict.shapley import Contributions, contributions, explained_exactly
from analysis.predict.terms import WHITE_BOX
from analysis.store.database import Database

#: Rows behind a global explanation.
GLOBAL_ROWS = 2000


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


@dataclass(frozen=True)
class GlobalImportance:
    """What a model looks at, over many rows of its training data.

    Attributes
    ----------
    table : pd.DataFrame
        One row a feature: feature, whose, what, group, mean_abs (mean |SHAP| in ln S), mean, largest first.
    shap : pd.DataFrame, shape (rows, features)
        Contributions in ln S, summed back to features.
    values : pd.DataFrame, shape (rows, features)
        Main value of each feature, for colours; NaN where it has none.
    rows : pd.DataFrame
        Who each row is about, and its measured S.
    base : float
        Mean prediction in ln S.
    row_base : ndarray, shape (rows,)
        Where each row's sum starts.
    method : str
        How the contributions were computed.
    additivity_error : float
        Largest |base + sum - prediction|.
    """

    table: pd.DataFrame
    shap: pd.DataFrame
    values: pd.DataFrame
    rows: pd.DataFrame
    base: float
    row_base: Floats
    method: str
    additivity_error: float


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
    parts = contributions(estimator, found.X, _background(database, manifest, estimator))
    predicted = np.asarray(estimator.predict(found.X), dtype=np.float64)
    return explanations(found.X, parts, predicted)


def explanations(X: pd.DataFrame, parts: Contributions, predicted: np.ndarray) -> list[Explanation]:
    """Turn contributions by column into explanations by feature, one a row."""
    found = []
    owners = [feature_of(str(name)) for name in parts.values.columns]
    distinct = list(dict.fromkeys(owners))
    member = np.array([[owner == feature for feature in distinct] for owner in owners], dtype=np.float64)
    sums = parts.values.to_numpy(dtype=np.float64) @ member.reshape(len(owners), len(distinct))
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


def global_importance(database: Database, model_id: str, rows: int = GLOBAL_ROWS) -> GlobalImportance:
    """Explain a model over its training data.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        The model.
    rows : int
        At most so many rows, drawn with a fixed seed.

    Returns
    -------
    GlobalImportance
        Contributions summed back to features, and their means.

    Raises
    ------
    NotFoundError
        If there is no such model, or its data set is no longer loaded.
    """
    manifest, estimator = models.load(database, model_id)
    frame = features.build(
        database, manifest.dataset, manifest.gpus, manifest.mechanisms, white_box=WHITE_BOX in manifest.columns
    )
    if len(frame) > rows:
        frame = frame.take(np.sort(np.random.default_rng(0).permutation(len(frame))[:rows]))
    parts = contributions(estimator, frame.X, frame.X)
    predicted = np.asarray(estimator.predict(frame.X), dtype=np.float64)
    owners = [feature_of(str(name)) for name in parts.values.columns]
    distinct = list(dict.fromkeys(owners))
    shap = pd.DataFrame(
        {
            feature.label: parts.values.iloc[:, [n for n, owner in enumerate(owners) if owner == feature]].sum(axis=1)
            for feature in distinct
        },
        index=range(len(frame)),
    )
    table = pd.DataFrame(
        [
            {
                "feature": feature.label, "whose": feature.whose, "what": feature.what, "group": feature.group,
                "mean_abs": float(shap[feature.label].abs().mean()), "mean": float(shap[feature.label].mean()),
            }
            for feature in distinct
        ],
        columns=["feature", "whose", "what", "group", "mean_abs", "mean"],
    )  # fmt: skip
    values = pd.DataFrame(
        {
            feature.label: frame.X[feature.main] if feature.main in frame.schema.names else np.nan
            for feature in distinct
        },
        index=range(len(frame)),
    )
    return GlobalImportance(
        table=table.sort_values("mean_abs", ascending=False, ignore_index=True),
        shap=shap,
        values=values,
        rows=frame.rows.drop(columns=["families"]),
        base=float(np.mean(parts.base)) if len(frame) else 0.0,
        row_base=np.asarray(parts.base, dtype=np.float64),
        method=parts.method,
        additivity_error=float(np.abs(parts.total() - predicted).max()) if len(frame) else 0.0,
    )


def _background(database: Database, manifest: Manifest, estimator: Any) -> pd.DataFrame | None:
    """Return training rows for predictors that need a sampled explainer; None where they are gone."""
    if not needs_background(estimator):
        return None
    try:
        solve = WHITE_BOX in manifest.columns
        return features.build(database, manifest.dataset, manifest.gpus, manifest.mechanisms, white_box=solve).X
    except NotEnoughDataError:
        return None


def needs_background(estimator: Any) -> bool:
    """Say whether a predictor, or a part of it, can only be explained by sampling."""
    parts = [part for _, part in getattr(estimator, "parts_", [])]
    if parts:
        return any(needs_background(part) for part in parts)
    return not explained_exactly(estimator)


def _summed(listed: Sequence[Contribution], by: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in listed:
        sums[getattr(one, by)] = sums.get(getattr(one, by), 0.0) + one.shap
    return dict(sorted(sums.items(), key=lambda item: -abs(item[1])))
