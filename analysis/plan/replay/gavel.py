"""Gavel's setting, reproduced: its trace, its cluster and its rounds, beside the figures that were published.

Source: D. Narayanan, K. Santhanam, F. Kazhamiaka, A. Phanishayee, M. Zaharia, *Heterogeneity-Aware Cluster Scheduling
Policies for Deep Learning Workloads*, OSDI 2020; published figures from the authors' notebook (MIT). 36 V100, 36 P100
and 36 K80; rounds of 360 s in which all jobs are placed anew in order of arrival; the mean JCT of jobs 4,000 to 5,000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.plan.replay import beliefs, pairtable, policies
from analysis.plan.replay.arrivals import GAVEL_WORKLOADS, gavel_jobs
from analysis.plan.replay.cluster import Cluster
from analysis.plan.replay.figures import figures
from analysis.plan.replay.pairtable import PairTable
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.execution import Progress
from analysis.predict.predictors.registry import DEFAULT
from analysis.store.database import Database

#: Published mean JCT in hours by jobs an hour.
BEST_GPU = {
    0.4: 15.31, 2.0: 15.45, 3.2: 15.95, 4.0: 17.08, 4.4: 18.19, 4.8: 22.24, 5.2: 56.69, 5.6: 104.12, 6.0: 150.04,
}  # fmt: skip
SHARING = {4.4: 18.18, 4.8: 21.14, 5.2: 38.11, 5.6: 83.40, 6.0: 127.10}

#: How far (percent) a reproduced figure may be off.
BEST_GPU_WITHIN, SHARING_WITHIN = 5.0, 10.0

#: Percent of the oracle's gain from sharing that deciding by predictions must keep, at these loads and seeds.
KEEP, KEEP_AT, KEEP_SEEDS = 80.0, (5.2, 5.6), (0, 1)

#: The seed of the trace that the published figures fit.
SEED = 0

CLUSTER = {"V100": 36, "P100": 36, "K80": 36}
ROUND_S = 360.0
LEAST_STP = 1.5
WATCHED = (4000, 5000)
#: Jobs of a trace: those that come after the watched ones still compete with them.
JOBS = 5600

_TITLES = {"fifo-best": "FIFO, best GPU", "oracle": "the same with sharing", "prediction": "sharing by predictions"}


@dataclass(frozen=True)
class Reproduction:
    """What came of it.

    Attributes
    ----------
    rows : list of dict
        One a published figure: policy, title, per_hour, published_h, reproduced_h, off (percent), bar, within_bar.
    kept : list of dict
        One a load and seed: per_hour, seed, exclusive_h, oracle_h, predicted_h, kept (percent of the oracle's gain),
        bar, within_bar.
    predictor : str
        By which it was decided.
    notes : tuple of str
        What a reader of the figures must know.
    """

    rows: list[dict[str, Any]]
    kept: list[dict[str, Any]]
    predictor: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "setting": "Gavel's setting, reproduced", "published": self.rows, "kept": self.kept,
            "predictor": self.predictor, "notes": list(self.notes),
        }  # fmt: skip


@dataclass(frozen=True)
class _Task:
    cluster: Cluster
    policy: policies.Policy
    per_hour: float
    seed: int

    def __str__(self) -> str:
        return f"{_TITLES[self.policy.name]}, {self.per_hour:g} jobs an hour, seed {self.seed}"


def reproduce(
    database: Database,
    dataset: str = "gavel-sim",
    predictor: str = DEFAULT,
    *,
    rates: Sequence[float] = (),
    least_stp: float = LEAST_STP,
    progress: Progress | None = None,
    n_jobs: int = 1,
) -> Reproduction:
    """Replay Gavel's setting and put the figures beside the published ones.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Gavel's simulation throughputs, as `stallscope datasets load gavel-sim` loads them.
    predictor : str
        Whose out-of-fold predictions decide in the last part.
    rates : sequence of float
        Only these of the published jobs an hour.
    least_stp : float
        Predicted STP above which jobs share in the last part; the oracle keeps Gavel's `LEAST_STP`.
    progress : callable, optional
        Called with the fraction done and a message; may raise to cancel.
    n_jobs : int
        Replays at a time.

    Raises
    ------
    NotFoundError, NotEnoughDataError
        If the data set is not there or lacks what is needed.
    """
    report = progress or execution.nothing
    truth = pairtable.measured(database, dataset, tuple(CLUSTER), reference="V100")
    for name in GAVEL_WORKLOADS:
        truth.position(name)
    names = dict(zip(CLUSTER, truth.gpus, strict=True))
    cluster = Cluster({names[kind]: count for kind, count in CLUSTER.items()}, truth, round_s=ROUND_S)
    keep_at = [rate for rate in KEEP_AT if not rates or rate in rates]
    predicted = None
    if keep_at:
        predicted = beliefs.out_of_fold(
            database, truth, predictor, progress=lambda fraction, message: report(0.2 * fraction, message)
        )
    wanted = [("fifo-best", rate, SEED) for rate in BEST_GPU] + [("oracle", rate, SEED) for rate in SHARING]
    wanted = [one for one in wanted if not rates or one[1] in rates]
    wanted += [
        (name, rate, seed) for rate in keep_at for seed in KEEP_SEEDS for name in ("fifo-best", "oracle", "prediction")
    ]
    wanted = list(dict.fromkeys(wanted))
    tasks = [_Task(cluster, _policy(name, truth, predicted, least_stp), rate, seed) for name, rate, seed in wanted]
    hours: dict[tuple[str, float, int], float] = {}
    for number, found in execution.run(
        _mean_jct, tasks, lambda fraction, message: report(0.2 + 0.8 * fraction, message), n_jobs=n_jobs
    ):
        hours[wanted[number]] = found
    rows = [
        _row(name, rate, table[rate], hours[name, rate, SEED], bar)
        for name, table, bar in (("fifo-best", BEST_GPU, BEST_GPU_WITHIN), ("oracle", SHARING, SHARING_WITHIN))
        for rate in table
        if (name, rate, SEED) in hours
    ]
    kept = [_kept(hours, rate, seed) for rate in keep_at for seed in KEEP_SEEDS]
    clipped = int((truth.slowdown[0] == 1.0).sum())
    notes = (
        f"Gavel's setting, reproduced: the trace is made again with seed {SEED}, which the published figures fit.",
        f"{clipped:,} of the V100's directed pairs have S exactly 1: they were clipped, and flatter sharing.",
        *truth.notes,
    )
    if keep_at:
        notes += (
            f"Predictions share above an STP of {least_stp:g}, the oracle above {LEAST_STP:g}. In strict order a "
            "refusal holds up everybody behind, so a lower threshold gains more, for the oracle as well.",
        )
    return Reproduction(rows, kept, predictor, notes)


def _policy(name: str, truth: PairTable, predicted: PairTable | None, least_stp: float) -> policies.Policy:
    """Make a policy with Gavel's rule: sharing is worth it from an STP on, without a limit, in strict order."""
    least = least_stp if name == "prediction" else LEAST_STP
    return policies.make(name, truth, predicted=predicted, least_stp=least, limit=math.inf, overtake=False)


def _mean_jct(task: _Task) -> float:
    replay = task.cluster.run(gavel_jobs(JOBS, task.per_hour, task.seed), task.policy, watched=WATCHED)
    return figures(replay, math.inf, WATCHED)["mean_jct_h"]


def _row(name: str, rate: float, published: float, found: float, bar: float) -> dict[str, Any]:
    off = 100.0 * (found / published - 1.0)
    return {
        "policy": name, "title": _TITLES[name], "per_hour": rate, "published_h": published, "reproduced_h": found,
        "off": off, "bar": bar, "within_bar": abs(off) <= bar,
    }  # fmt: skip


def _kept(hours: dict[tuple[str, float, int], float], rate: float, seed: int) -> dict[str, Any]:
    alone, oracle, ours = (hours[name, rate, seed] for name in ("fifo-best", "oracle", "prediction"))
    kept = 100.0 * (alone - ours) / (alone - oracle)
    return {
        "per_hour": rate, "seed": seed, "exclusive_h": alone, "oracle_h": oracle, "predicted_h": ours, "kept": kept,
        "bar": KEEP, "within_bar": kept >= KEEP,
    }  # fmt: skip


def in_words(found: Reproduction) -> str:
    """Say in one sentence how far the figures are off, and what deciding by predictions keeps."""
    parts = []
    for name, bar in (("fifo-best", BEST_GPU_WITHIN), ("oracle", SHARING_WITHIN)):
        off = [abs(row["off"]) for row in found.rows if row["policy"] == name]
        if off:
            parts.append(f"{_TITLES[name]} at most {max(off):.1f} % off the published figures (bar {bar:g} %)")
    if found.kept:
        least = min(row["kept"] for row in found.kept)
        parts.append(
            f"deciding by {found.predictor} keeps at least {least:.0f} % of the oracle's gain (bar {KEEP:g} %)"
        )
    return "Gavel's setting, reproduced: " + "; ".join(parts) + "."
