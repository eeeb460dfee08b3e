"""Scheduling policies: in which order jobs go, which free GPU they take, and whom they may join on a busy one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Literal, Protocol

import numpy as np

from analysis.errors import UsageError
from analysis.interference.decision import LIMIT, WORTHWHILE, Levels
from analysis.plan.replay.pairtable import Array, PairTable

#: A pair is worth sharing from this STP on, as everywhere in StallScope.
LEAST_STP = WORTHWHILE

#: Probability from which a policy that minds risk lets jobs share, unless it is told another.
SHARE_AT = Levels().share_from

#: Policies by name: what they are called, and what they need to decide.
POLICIES: dict[str, str] = {
    "fifo": "FIFO on any GPU",
    "fifo-best": "FIFO on the best GPU",
    "sjf": "Shortest job first",
    "random": "FIFO with random sharing",
    "utilisation": "Utilisation rule",
    "prediction": "Prediction",
    "prediction-risk": "Prediction with risk",
    "oracle": "Oracle",
}

#: Policies that read out-of-fold predictions, and those that need them with calibrated intervals.
PREDICTING, RISK = ("prediction", "prediction-risk"), ("prediction-risk",)


class Judge(Protocol):
    """Says whether a job may join running ones, and how good that is; ``draws`` takes any that may at random."""

    draws: ClassVar[bool] = False

    def score(self, gpu: int, members: tuple[int, ...], workload: int, rng: Random) -> float | None:
        """Return a score, larger is better, or None where the job may not join."""


@dataclass(frozen=True)
class Policy:
    """How jobs are placed.

    Attributes
    ----------
    name, title : str
        Its name on the command line, and what people call it.
    order : {"arrival", "shortest"}
        Which waiting job goes first.
    gpu : {"any", "best"}
        Which free GPU a job takes: any at random, or the one on which it is fastest alone.
    judge : Judge or None
        Whom a job may join where no GPU is free; None never shares.
    overtake : bool
        Whether a later job may join others while an earlier one waits because nobody suits it.
    """

    name: str
    title: str
    order: Literal["arrival", "shortest"] = "arrival"
    gpu: Literal["any", "best"] = "best"
    judge: Judge | None = None
    overtake: bool = True


@dataclass(frozen=True)
class RandomJudge:
    """Any pair that runs at all, at random."""

    draws: ClassVar[bool] = True

    truth: PairTable

    def score(self, gpu: int, members: tuple[int, ...], workload: int, rng: Random) -> float | None:
        """Return 0 where the set runs."""
        return None if math.isnan(self.truth.stp(gpu, (*members, workload))) else 0.0


@dataclass(frozen=True)
class SlowdownJudge:
    """The set with the largest STP, if that is high enough and every job stays within the limit.

    Attributes
    ----------
    table : PairTable
        Slowdowns to decide by: predictions, or the measured ones for the oracle.
    least_stp : float
        The STP of the set must be larger.
    limit : float
        Largest S of a member; infinite for none.
    share_at : float or None
        Decide by the probability that both stay within the limit instead of by the limit itself.
    """

    draws: ClassVar[bool] = False

    table: PairTable
    least_stp: float = LEAST_STP
    limit: float = LIMIT
    share_at: float | None = None
    _known: dict[tuple[int, tuple[int, ...], int], float | None] = field(default_factory=dict, compare=False)

    def score(self, gpu: int, members: tuple[int, ...], workload: int, rng: Random) -> float | None:
        """Return the STP of the set, or None where it is too low or somebody would pay too much."""
        key = (gpu, members, workload)
        if key not in self._known:
            self._known[key] = self._judge(gpu, (*members, workload))
        return self._known[key]

    def _judge(self, gpu: int, members: tuple[int, ...]) -> float | None:
        slowdowns = self.table.slowdowns(gpu, members)
        stp = sum(1.0 / value for value in slowdowns)
        if not stp > self.least_stp:  # NaN: a pair that may not share
            return None
        if self.share_at is None:
            return stp if max(slowdowns) <= self.limit else None
        within = self.table.within
        if within is None:
            return None
        pairs = [within[gpu, one, other] for i, one in enumerate(members) for other in members[i + 1 :]]
        return stp if float(np.prod(pairs)) >= self.share_at else None


@dataclass(frozen=True)
class UtilisationJudge:
    """Jobs share while the sum of their SM utilisations stays within the GPU, the emptiest GPU first.

    The rule of utilisation-based packing (as in Horus and Lucid).
    """

    draws: ClassVar[bool] = False

    truth: PairTable
    utilisation: Array
    most: float = 1.0

    def score(self, gpu: int, members: tuple[int, ...], workload: int, rng: Random) -> float | None:
        """Return what stays free of the GPU, or None where it would be overfull or a utilisation is unknown."""
        everyone = (*members, workload)
        total = float(sum(self.utilisation[gpu, one] for one in everyone))
        if math.isnan(self.truth.stp(gpu, everyone)) or not total <= self.most:
            return None
        return self.most - total


def make(
    name: str,
    truth: PairTable,
    *,
    predicted: PairTable | None = None,
    utilisation: Array | None = None,
    least_stp: float = LEAST_STP,
    limit: float = LIMIT,
    share_at: float = SHARE_AT,
    overtake: bool = True,
) -> Policy:
    """Make a policy by its name.

    Parameters
    ----------
    name : str
        A name of `POLICIES`.
    truth : PairTable
        What was measured; only the oracle decides by it, the others take from it which pairs run at all.
    predicted : PairTable, optional
        Out-of-fold predictions, for the policies that predict.
    utilisation : ndarray of float, optional
        SM utilisation alone (0 to 1), GPUs x workloads.
    least_stp, limit, share_at : float
        When sharing is worth it, see `SlowdownJudge`.
    overtake : bool
        See `Policy`.

    Raises
    ------
    UsageError
        If there is no such policy, or what it decides by is missing.
    """
    if name not in POLICIES:
        raise UsageError(f"there is no policy {name!r}", f"Choose of {', '.join(POLICIES)}.")
    title = POLICIES[name]
    if name == "fifo":
        return Policy(name, title, gpu="any")
    if name == "fifo-best":
        return Policy(name, title)
    if name == "sjf":
        return Policy(name, title, order="shortest")
    judge: Judge
    if name == "random":
        judge = RandomJudge(truth)
    elif name == "oracle":
        judge = SlowdownJudge(truth, least_stp, limit)
    elif name == "utilisation":
        if utilisation is None or np.isnan(utilisation).all():
            raise UsageError(
                f"the utilisation rule needs each job's SM utilisation alone, and {truth.dataset} has none",
                "Load profiles or telemetry of the jobs alone, or leave this policy out.",
            )
        judge = UtilisationJudge(truth, utilisation)
    else:
        if predicted is None or (name in RISK and predicted.within is None):
            raise UsageError(
                f"policy {name} needs out-of-fold predictions{' with intervals' if name in RISK else ''}",
                "Name a predictor with --predictor, or choose another policy.",
            )
        judge = SlowdownJudge(predicted, least_stp, limit, share_at if name in RISK else None)
    return Policy(name, title, judge=judge, overtake=overtake)
