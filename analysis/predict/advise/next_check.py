"""Is an active choice of co-runs better than one by lot? Every known workload in turn is treated as a new one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.errors import NotEnoughDataError
from analysis.numbers import significant
from analysis.predict.advise import measure_next as active
from analysis.predict.advise.measure_next import Candidates, candidates_of
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.metrics import absolute_percentage_errors
from analysis.predict.evaluate.protocols import Fold, left_out
from analysis.predict.frame import features
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.predictors.structured import StructuredGP
from analysis.store.database import Database

#: Choices by lot for each workload.
DRAWS = 30

#: Below this a difference is not put down to chance.
SURE = 0.05

#: Measured pairs that must be left to be predicted.
LEAST_LEFT = 3


@dataclass(frozen=True)
class NextCheck:
    """What an active choice was worth on measured data.

    Attributes
    ----------
    rows : list of dict
        One a workload: workload, pairs, none, by_lot, active; mape in percent over its pairs that were not chosen.
    runs : int
        Runs that were chosen for each.
    none, by_lot, active : float
        Means over the workloads, in percent.
    better : int
        Workloads for which the active choice was better than the mean of the choices by lot.
    p_value : float or None
        Wilcoxon signed-rank test of active against lot, paired over workloads; None with fewer than six.
    simulated : bool
        Whether a simulator made the co-runs.
    """

    rows: list[dict[str, Any]]
    runs: int
    none: float
    by_lot: float
    active: float
    better: int
    p_value: float | None
    simulated: bool

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def table(self) -> pd.DataFrame:
        """Return one row a workload."""
        return pd.DataFrame(self.rows)


def check_choice(
    database: Database, dataset: str, gpu: str, mechanism: str, runs: int = 5, progress: Progress | None = None
) -> NextCheck:
    """Leave every workload out in turn, choose some of its runs, and predict the rest.

    The model is fitted without any run of the workload; the chosen runs then enter the Gaussian process in closed form,
    its hyper-parameters unchanged. Only the direct view of the default predictor takes part.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism : str
        Canonical names; the measured pairs to use.
    runs : int
        Runs to choose for each workload.
    progress : callable, optional
        As in `evaluate.evaluate`.

    Raises
    ------
    NotEnoughDataError
        If no workload has enough measured pairs.
    """
    frame = features.build(database, dataset, [gpu], [mechanism])
    pairs = frame.take(np.flatnonzero(frame.rows["k"].to_numpy() == 2))
    sets = [frozenset((own, *others)) for own, others in zip(pairs.rows["workload"], pairs.rows["others"], strict=True)]
    folds = [fold for fold in left_out(sets) if len(_runs(pairs, fold.test)) >= runs + LEAST_LEFT and len(fold.train)]
    if not folds:
        raise NotEnoughDataError(
            f"no workload of {dataset} has {runs + LEAST_LEFT} measured pairs on {gpu}", "Ask for fewer runs."
        )
    found = execution.run(
        lambda fold: _one(pairs, fold, runs), folds, progress, describe=lambda fold: f"as if {fold.label} were new"
    )
    rows = [row for _, row in sorted(found, key=lambda one: one[0])]
    lot, chosen = np.array([row["by_lot"] for row in rows]), np.array([row["active"] for row in rows])
    tested = len(rows) >= 6 and bool(np.any(lot != chosen))
    return NextCheck(
        rows=rows,
        runs=runs,
        none=float(np.mean([row["none"] for row in rows])),
        by_lot=float(lot.mean()),
        active=float(chosen.mean()),
        better=int((chosen < lot).sum()),
        p_value=float(stats.wilcoxon(chosen, lot).pvalue) if tested else None,
        simulated=frame.simulated,
    )


def in_words(checked: NextCheck) -> str:
    """Say whether the choice was better than one by lot, and how sure that is."""
    count = len(checked.rows)
    text = (
        f"Tried on {count} measured {'workload' if count == 1 else 'workloads'}, each as if it were new: "
        f"{significant(checked.none)} % error without a run of it, {significant(checked.active)} % after "
        f"{checked.runs} chosen runs, {significant(checked.by_lot)} % after as many by lot; the choice was better for "
        f"{checked.better} of {count}."
    )
    if checked.p_value is None or checked.p_value >= SURE:
        return f"{text} That is no more than chance would give: any {checked.runs} runs help about as much."
    return f"{text} Paired over workloads, p = {significant(checked.p_value)} (Wilcoxon)."


def _runs(pairs: TrainingFrame, rows: Ints) -> list[Ints]:
    """Return the rows of each run."""
    ids = pairs.rows["run_id"].to_numpy()[rows]
    return [rows[ids == one] for one in np.unique(ids)]


def _one(pairs: TrainingFrame, fold: Fold, runs: int) -> dict[str, Any]:
    train = pairs.take(fold.train)
    model = StructuredGP().fit(train.X, train.y)
    groups = _runs(pairs, fold.test)
    order = np.concatenate(groups)
    weighed, mean = candidates_of(model, pairs.X.iloc[order].reset_index(drop=True))
    ends = np.cumsum([len(group) for group in groups])
    places = [np.arange(end - len(group), end) for end, group in zip(ends, groups, strict=True)]
    weighed = Candidates(weighed.covariance, weighed.noise, places)
    truth = pairs.y[order]
    chosen = [number for number, _ in active.greedy(weighed, runs)]
    generator = np.random.default_rng(0)
    by_lot = [
        _left_error(weighed, mean, truth, generator.permutation(len(places))[:runs].tolist()) for _ in range(DRAWS)
    ]
    return {
        "workload": fold.label,
        "pairs": len(groups),
        "none": _left_error(weighed, mean, truth, []),
        "by_lot": float(np.mean(by_lot)),
        "active": _left_error(weighed, mean, truth, chosen),
    }


def _left_error(weighed: Candidates, mean: Floats, truth: Floats, chosen: list[int]) -> float:
    """Return the mape, in percent, over the rows that were not measured."""
    left = np.ones(len(truth), dtype=bool)
    if chosen:
        rows = np.concatenate([weighed.runs[number] for number in chosen])
        mean = active.condition(weighed, mean, rows, truth[rows])
        left[rows] = False
    return float(absolute_percentage_errors(np.exp(truth[left]), np.exp(mean[left])).mean())
