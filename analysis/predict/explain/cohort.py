"""Why a family of jobs suffers more or less than the others: the mean contributions of its rows beside all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.numbers import slowdown as times
from analysis.predict.explain.importance import GlobalImportance
from analysis.predict.explain.sentences import causes, rest_in_words

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
