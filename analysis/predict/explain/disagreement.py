"""Where prediction and measurement disagree: by how much, what led astray, and whether the measurement is doubted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from analysis.interference.finding import named
from analysis.numbers import slowdown as times
from analysis.predict.explain.explain import Explanation
from analysis.predict.frame.features import flagged_workloads
from analysis.predict.models.jobs import JobPrediction
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: A prediction this near to the measurement (5 % of S) leads nobody astray.
NEAR = 0.05

#: A contribution is blamed when the prediction without it is nearer by at least this part of the error.
BLAMED = 0.2


@dataclass(frozen=True)
class Disagreement:
    """Predicted against measured for one job of a set that ran.

    Attributes
    ----------
    workload : str
        The job.
    predicted, measured : float
        S.
    low, high : float or None
        Ends of the prediction's interval.
    error : float
        Percent of the measured S; positive: predicted too slow.
    inside : bool or None
        Whether the measurement lies in the interval; None without one.
    astray : tuple of (str, float, float)
        Features without whose contribution the prediction would be nearer: feature, its factor, S without it.
    doubts : tuple of str
        What speaks against the measurement: flags of its runs, a doubted baseline.
    runs : int
        Runs behind the measured value.
    simulated : bool
        Whether a simulator ran them.
    sentence : str
        All of it in words.
    """

    workload: str
    predicted: float
    measured: float
    low: float | None
    high: float | None
    error: float
    inside: bool | None
    astray: tuple[tuple[str, float, float], ...]
    doubts: tuple[str, ...]
    runs: int
    simulated: bool
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def disagreements(
    database: Database,
    dataset: str,
    gpu: str,
    mechanism: str,
    predictions: Sequence[JobPrediction],
    explanations: Sequence[Explanation],
) -> list[Disagreement]:
    """Compare every job of a set that was measured.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism : str
        Where the set was measured; as stored.
    predictions, explanations : sequence
        Of one set, in one order.

    Returns
    -------
    list of Disagreement
        One a job with a measurement; empty where the set was not measured.
    """
    if all(one.measured is None for one in predictions):
        return []
    runs, flags = _runs(database, dataset, gpu, mechanism, [one.workload for one in predictions])
    doubted = {workload for place, workload in flagged_workloads(database, dataset) if place == gpu}
    found = []
    for one, explanation in zip(predictions, explanations, strict=True):
        if one.measured is None:
            continue
        doubts = [f"its runs are flagged {named(flags)}"] if flags else []
        alone = [job for job in dict.fromkeys((one.workload, *one.co_workloads)) if job in doubted]
        if alone:
            doubts.append(f"the checks doubt the solo baseline of {named(alone)}")
        found.append(_compare(one, explanation, doubts, runs))
    return found


def _compare(one: JobPrediction, explanation: Explanation, doubts: list[str], runs: int) -> Disagreement:
    measured, predicted = float(one.measured or 0.0), one.slowdown
    gap = float(np.log(predicted) - np.log(measured))
    inside = None if one.low is None or one.high is None else one.low <= measured <= one.high
    astray: list[tuple[str, float, float]] = []
    if abs(gap) > NEAR:
        for part in explanation.contributions:
            nearer = abs(gap) - abs(gap - part.shap)
            if nearer > BLAMED * abs(gap):
                astray.append((part.feature, part.factor, float(np.exp(explanation.prediction - part.shap))))
        astray.sort(key=lambda item: abs(np.log(item[2]) - np.log(measured)))
    return Disagreement(
        one.workload, predicted, measured, one.low, one.high, 100.0 * (predicted / measured - 1.0), inside,
        tuple(astray[:3]), tuple(doubts), runs, one.simulated,
        _sentence(one, measured, gap, inside, astray[:1], doubts),
    )  # fmt: skip


def _sentence(
    one: JobPrediction,
    measured: float,
    gap: float,
    inside: bool | None,
    astray: Sequence[tuple[str, float, float]],
    doubts: Sequence[str],
) -> str:
    how = "simulated" if one.simulated else "measured"
    error = 100.0 * (one.slowdown / measured - 1.0)
    said = f"{one.workload}: predicted {times(one.slowdown)}, {how} {times(measured)} ({error:+.1f} %)"
    if inside is not None:
        said += f", {'inside' if inside else 'outside'} the interval"
    said += "."
    if abs(gap) <= NEAR:
        said += " They agree."
    elif astray:
        feature, factor, without = astray[0]
        said += (
            f" What leads furthest astray is {feature} (x {factor:.2f}): without it the prediction would be "
            f"{times(without)}."
        )
    else:
        said += " No single feature leads astray; the error is spread over many, or lies in what the model can't see."
    if doubts:
        said += f" But {' and '.join(doubts)}."
    return said


def _runs(database: Database, dataset: str, gpu: str, mechanism: str, jobs: Sequence[str]) -> tuple[int, list[str]]:
    """Return how many runs of exactly this set there are, and the flags that their members carry."""
    chosen = Filter(
        datasets=(dataset,), gpus=(gpu,), mechanisms=(mechanism,), workloads=tuple(dict.fromkeys(jobs))
    )  # fmt: skip
    members = coruns.with_partners(database, chosen)
    wanted = sorted(jobs)
    runs = {run for run, names in members.groupby("run_id")["workload"] if sorted(names.astype(str)) == wanted}
    mine = members[members["run_id"].isin(runs)]
    flags = {str(flag) for found in mine["flags"] for flag in (found if found is not None else ())}
    return len(runs), sorted(flag.replace("_", " ") for flag in flags)
