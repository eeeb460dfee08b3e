"""What a model looks at: the contributions of many of its training rows, summed back to what people know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.numbers import slowdown as times
from analysis.predict.explain.background import training_frame
from analysis.predict.explain.explanation import causes, rest_in_words
from analysis.predict.explain.shapley import contributions, sampled
from analysis.predict.frame.naming import by_feature, natural
from analysis.predict.frame.schema import Floats
from analysis.predict.models import models
from analysis.store.database import Database

#: Rows behind a global explanation, and behind one that has to be sampled, which takes long.
ROWS = 500
SAMPLED_ROWS = 150


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
        Main value of each feature in the unit that people know; NaN where it has none.
    units : dict of str to str
        That unit; empty where the value has none.
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
    units: dict[str, str]
    rows: pd.DataFrame
    base: float
    row_base: Floats
    method: str
    additivity_error: float


def global_importance(database: Database, model_id: str, rows: int | None = None) -> GlobalImportance:
    """Explain a model over its training data.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        The model.
    rows : int, optional
        At most so many rows, drawn with a fixed seed; by default many where that is quick, fewer where it is sampled.

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
    whole = frame = training_frame(database, manifest)
    most = rows or (SAMPLED_ROWS if sampled(estimator) else ROWS)
    if len(frame) > most:
        frame = frame.take(np.sort(np.random.default_rng(0).permutation(len(frame))[:most]))
    parts = contributions(estimator, frame.X, whole.X)
    predicted = np.asarray(estimator.predict(frame.X), dtype=np.float64)
    distinct, sums = by_feature(parts.values)
    shap = pd.DataFrame(sums, columns=[feature.label for feature in distinct])
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
    shown = {
        feature.label: natural(feature.main, frame.X[feature.main].to_numpy(dtype=np.float64))
        if feature.main in frame.schema.names
        else (np.full(len(frame), np.nan), "")
        for feature in distinct
    }
    values = pd.DataFrame({label: numbers for label, (numbers, _) in shown.items()}, index=range(len(frame)))
    return GlobalImportance(
        table=table.sort_values("mean_abs", ascending=False, ignore_index=True),
        shap=shap,
        values=values,
        units={label: unit for label, (_, unit) in shown.items()},
        rows=frame.rows.drop(columns=["families"]),
        base=float(np.mean(parts.base)) if len(frame) else 0.0,
        row_base=np.asarray(parts.base, dtype=np.float64),
        method=parts.method,
        additivity_error=float(np.abs(parts.total() - predicted).max()) if len(frame) else 0.0,
    )


#: Fewer rows than this say nothing about a family.
LEAST_ROWS = 5


@dataclass(frozen=True)
class Cohort:
    """A group of jobs against all jobs that a model explains.

    Attributes
    ----------
    name : str
        The family, or another group.
    rows, workloads : int
        Members and workloads behind it.
    base, mean : float
        Mean predicted ln S of all rows, and of the group's.
    measured : float
        Mean measured ln S of the group.
    table : pd.DataFrame
        One row a feature: feature, whose, what, group, shap (mean contribution of the group's rows less that of all
        rows, ln S), factor; largest first. Base plus the sum of shap is the mean.
    sentence : str
        In words.
    """

    name: str
    rows: int
    workloads: int
    base: float
    mean: float
    measured: float
    table: pd.DataFrame
    sentence: str


def families(found: GlobalImportance) -> list[str]:
    """Return the families with enough rows to speak of, in order."""
    counts = found.rows["family"].astype(str).value_counts()
    return sorted(str(name) for name, count in counts.items() if count >= LEAST_ROWS)


def cohort(found: GlobalImportance, name: str, mask: Sequence[bool] | None = None) -> Cohort:
    """Compare a family with all rows of a global explanation.

    Parameters
    ----------
    found : GlobalImportance
        Contributions over many rows.
    name : str
        The family; with `mask` what the group is called.
    mask : sequence of bool, optional
        Rows of the group; by default those of the family's own jobs.

    Returns
    -------
    Cohort
        Additive: the base and all parts give the group's mean prediction.
    """
    inside = np.asarray(found.rows["family"].astype(str) == name if mask is None else mask, dtype=bool)
    shap = found.shap.to_numpy(dtype=np.float64)
    total = found.row_base + shap.sum(axis=1)
    differences = shap[inside].mean(axis=0) - shap.mean(axis=0)
    start = float(found.row_base[inside].mean() - found.row_base.mean())
    about = found.table.set_index("feature")
    rows = [
        {
            "feature": feature, "whose": about.at[feature, "whose"], "what": about.at[feature, "what"],
            "group": about.at[feature, "group"], "shap": float(value), "factor": float(np.exp(value)),
        }
        for feature, value in zip(found.shap.columns, differences, strict=True)
    ]  # fmt: skip
    if abs(start) > 1e-12:  # sampled explanations start at sets of as many jobs
        rows.append({"feature": "number of jobs in its sets", "whose": "pair", "what": "configuration",
                     "group": "configuration", "shap": start, "factor": float(np.exp(start))})  # fmt: skip
    table = pd.DataFrame(rows, columns=["feature", "whose", "what", "group", "shap", "factor"])
    table = table.sort_values("shap", key=np.abs, ascending=False, ignore_index=True)
    base, mean = float(total.mean()), float(total[inside].mean())
    members = found.rows[inside]
    measured = float(np.log(members["slowdown"].to_numpy(dtype=np.float64)).mean())
    return Cohort(
        name, int(inside.sum()), int(members["workload"].nunique()), base, mean, measured, table,
        _sentence(name, base, mean, list(zip(table["feature"], table["shap"], strict=True))),
    )  # fmt: skip


def _sentence(name: str, base: float, mean: float, parts: Sequence[tuple[str, float]]) -> str:
    worse, better = causes(parts)
    way = "more" if mean > base else "less"
    ratio = 100.0 * abs(float(np.exp(mean - base)) - 1.0)
    if ratio < 2.0:
        head = f"Jobs of {name} are predicted to suffer as much as others: {times(float(np.exp(mean)))}."
    else:
        head = (
            f"Jobs of {name} are predicted to suffer {ratio:.0f} % {way} than all jobs: "
            f"{times(float(np.exp(mean)))} beside {times(float(np.exp(base)))}."
        )
    said = [head]
    for label, named in (("Up", worse), ("Down", better)):
        if named:
            said.append(f"{label}: {'; '.join(f'{feature} (x {np.exp(value):.2f})' for feature, value in named)}.")
    if rest := rest_in_words(parts, [*worse, *better]):
        said.append(rest)
    if not worse and not better:
        said.append("No single feature sets them apart by more than 2 %.")
    return " ".join(said)
