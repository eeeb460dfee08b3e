"""One decision on a set of jobs, the same wherever it is asked: share, don't, or measure first, and why.

Pure: what is known of a set goes in, words and figures come out. Every page, command and report shows what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from analysis.errors import UsageError
from analysis.interference.memory import UNKNOWN_YET_RAN, Memory, after_running
from analysis.numbers import significant
from analysis.settings import Settings, get_settings

Verdict = Literal["share", "don't", "measure first"]

#: Largest slowdown that each job may have where neither the settings nor anybody says otherwise.
LIMIT = Settings.limit

#: Sharing is worth its trouble from this system throughput on (1 is what one job after the other gives).
WORTHWHILE = 1.1

#: A comparison of predictors means something from this many runs on; fewer give figures and no score.
RUNS_FOR_SCORE = 30

#: What is said where there is no figure at all.
NO_FIGURE = "They never ran together here, and without a model nothing says what they would cost each other."

#: Said of memory where the very set ran and the peaks say that it can't.
DISAGREE = "Their peaks alone add up to more than the GPU has, yet they ran: the run counts, the peaks are an estimate."


@dataclass(frozen=True)
class Forecast:
    """What a model, or the measured pairs, say of a set that didn't run.

    Attributes
    ----------
    slowdowns : tuple of float
        One S a job; NaN where there is none.
    within_limit : float or None
        Probability that every job stays within the limit, 0 to 1; None without a calibration that covers the set.
    extrapolating : bool
        Whether it goes beyond what the model has seen.
    basis : str
        ``predicted`` by a model, ``composed`` of measured pairs, or from the ``effects`` of each job over all runs.
    n : int
        Left-out sets behind the probability, or runs behind the pairs.
    evidence : str
        Weakest evidence of the jobs' profiles.
    """

    slowdowns: tuple[float, ...]
    within_limit: float | None = None
    extrapolating: bool = False
    basis: Literal["predicted", "composed", "effects"] = "predicted"
    n: int = 0
    evidence: str = "none"

    @property
    def known(self) -> bool:
        """Whether every job has a figure."""
        return len(self.slowdowns) > 0 and all(math.isfinite(value) for value in self.slowdowns)


#: Gives the forecasts of many sets, one a set.
Guess = Callable[[list[tuple[str, ...]]], list[Forecast]]


@dataclass(frozen=True)
class Case:
    """What is known of a set.

    Attributes
    ----------
    limit : float
        Largest slowdown that each job may have.
    memory : str
        As `memory_fit` says.
    measured : tuple of float
        S of each job in runs of exactly this set; empty where it did not run, or not with all its values.
    worst : float or None
        Largest S of one run, the median over the runs; by default the largest of `measured`.
    ran, failed : int
        Runs that ran, and that did not.
    doubtful : tuple of str
        Jobs whose solo baseline is doubted, or that ran faster beside the others than alone.
    forecast : Forecast or None
        What is said of it without a run.
    simulated : bool
        Whether a simulator ran it.
    """

    limit: float
    memory: Memory
    measured: tuple[float, ...] = ()
    worst: float | None = None
    ran: int = 0
    failed: int = 0
    doubtful: tuple[str, ...] = ()
    forecast: Forecast | None = None
    simulated: bool = False

    @property
    def fitted(self) -> bool:
        """Whether the set ran, every time: then it fits, whatever its peaks say."""
        return self.ran > 0 and not self.failed

    @property
    def memory_now(self) -> Memory:
        """What is shown of memory: a run counts before an estimate."""
        return after_running(self.memory, self.fitted)


@dataclass(frozen=True)
class Decision:
    """What is decided.

    Attributes
    ----------
    verdict, why : str
        share, don't or measure first; and a sentence.
    worst : float or None
        The figure it rests on: the largest S of the set; None where there is none.
    evidence : str
        ``measured``, ``did not run``, ``composed``, ``effects``, ``none``, or the weakest evidence of a prediction.
    n : int
        Runs behind a measurement or a composition, left-out sets behind a probability.
    within_limit : float or None
        Probability in percent that every job stays within the limit; None for a measurement and without a calibration.
    limit : float
        The limit it was decided at.
    """

    verdict: Verdict
    why: str
    worst: float | None
    evidence: str
    n: int
    within_limit: float | None
    limit: float


@dataclass(frozen=True)
class Levels:
    """Probabilities of the limit, 0 to 1, from which on a prediction says share, and up to which it says don't."""

    share_from: float = Settings.share_from / 100
    dont_up_to: float = Settings.dont_up_to / 100


def levels() -> Levels:
    """Return the levels of the settings."""
    settings = get_settings()
    return Levels(settings.share_from / 100, settings.dont_up_to / 100)


def usual_limit() -> float:
    """Return the limit of the settings, for whoever asks without one."""
    return get_settings().limit


def check_limit(limit: float) -> float:
    """Return a limit that can be met.

    Raises
    ------
    UsageError
        If it is below 1.
    """
    if not (math.isfinite(limit) and limit >= 1):
        raise UsageError(f"a limit of {limit:g} x can't be met", "Give a slowdown of at least 1.")
    return float(limit)


def throughput(slowdowns: Sequence[float]) -> float:
    """Return the system throughput of a set: the sum of 1 / S."""
    return sum(1.0 / value for value in slowdowns)


def decide(case: Case, at: Levels | None = None) -> Decision:
    """Decide on a set: a measurement of it first, then memory, then what is predicted.

    Parameters
    ----------
    case : Case
        What is known.
    at : Levels, optional
        Probabilities at which a prediction decides; by default those of the settings.
    """
    if case.measured and all(math.isfinite(value) for value in case.measured):
        return _measured(case)
    if case.failed and not case.ran:
        runs = "the run" if case.failed == 1 else f"all {case.failed} runs"
        return _decision(case, "don't", f"They did not run together: {runs} failed.", None, "did not run", case.failed)
    return _predicted(case, at or levels())


def _decision(
    case: Case, verdict: Verdict, why: str, worst: float | None, evidence: str, n: int, within: float | None = None
) -> Decision:
    return Decision(verdict, why, worst, evidence, n, None if within is None else 100.0 * within, case.limit)


def _measured(case: Case) -> Decision:
    worst = max(case.measured) if case.worst is None or not math.isfinite(case.worst) else case.worst
    together = throughput(case.measured)
    word = "Simulated" if case.simulated else "Measured"
    runs = "1 run" if case.ran == 1 else f"{case.ran} runs"

    def said(verdict: Verdict, why: str) -> Decision:
        return _decision(case, verdict, why, worst, "measured", case.ran)

    head = f"{word} together ({runs}), the worst of them pays {significant(worst)} x"
    if case.doubtful:
        return said(
            "measure first",
            f"{head}, but the solo baseline of {' and of '.join(case.doubtful)} is doubtful, and with it the slowdown: "
            "measure it alone again.",
        )
    if worst > case.limit:
        return said("don't", f"{head}, beyond the limit of {case.limit:g} x.")
    if together < WORTHWHILE:
        return said(
            "don't",
            f"{head}, within the limit of {case.limit:g} x, but together they do only {together:.2f} times the work of "
            "one job after the other.",
        )
    head = f"{head}, within the limit of {case.limit:g} x"
    if case.memory_now == "unknown":
        return said("measure first", f"{head}, but their peaks of memory are unknown and not all of their runs ran.")
    tail = {
        "does_not_fit": f" {DISAGREE}", "tight": " Their memory is tight.", "unknown": f" {UNKNOWN_YET_RAN}",
    }.get(case.memory, "")  # fmt: skip
    return said("share", f"{head}; together they do {together:.2f} times the work of one job after the other.{tail}")


def measured_verdicts(
    together: npt.NDArray[np.float64], worst: npt.NDArray[np.float64], doubtful: npt.NDArray[np.bool_],
    unknown_memory: npt.NDArray[np.bool_], limit: float,
) -> npt.NDArray[Any]:  # fmt: skip
    """Return the verdicts that `decide` gives on sets that ran, many at once.

    Parameters
    ----------
    together, worst : ndarray of float
        System throughput, and the largest S, of each set.
    doubtful, unknown_memory : ndarray of bool
        Whether a job of it is to be doubted, and whether its memory is unknown.
    limit : float
        Largest slowdown that each job may have.
    """
    chosen = [doubtful, worst > limit, together < WORTHWHILE, unknown_memory]
    return np.select(chosen, np.array(["measure first", "don't", "don't", "measure first"], dtype=object), "share")


def _predicted(case: Case, at: Levels) -> Decision:
    given = case.forecast
    known = given if given is not None and given.known else None
    worst = max(known.slowdowns) if known else None
    evidence = "none" if known is None else known.evidence if known.basis == "predicted" else known.basis
    n = known.n if known else 0
    within = known.within_limit if known else None

    def said(verdict: Verdict, why: str) -> Decision:
        return _decision(case, verdict, why, worst, evidence, n, within)

    if case.memory == "does_not_fit":
        return said("don't", "Their peaks of memory are more than the GPU has.")
    if known is None or worst is None:
        lacking = " Their peaks of memory are unknown, too." if case.memory == "unknown" else ""
        return said("measure first", f"{NO_FIGURE}{lacking}")
    if known.basis != "predicted":
        side = "within" if worst <= case.limit else "beyond"
        score = f"; no score: fewer than {RUNS_FOR_SCORE} runs" if n < RUNS_FOR_SCORE else ""
        of = (
            f"their measured pairs add up to {significant(worst)} x for the worst"
            if known.basis == "composed"
            else f"by what each of them suffers and does beside others the worst would pay {significant(worst)} x"
        )
        how = "composed of pairs" if known.basis == "composed" else f"effects over {n} runs"
        head = f"They never ran together; {of}, {side} the limit of {case.limit:g} x ({how}{score})."
    elif within is None:
        head = (
            f"The prediction is {significant(worst)} x for the worst, but no measured co-run stands behind an interval "
            "for it."
        )
    else:
        head = f"Within {case.limit:g} x with a probability of {100 * within:.0f} %"
    if case.doubtful:
        return said(
            "measure first",
            f"{head.rstrip('.')}, but the solo baseline of {' and of '.join(case.doubtful)} is doubtful, and with it "
            "the prediction: measure it alone again.",
        )
    if case.memory == "unknown":
        return said(
            "measure first",
            f"Whether they fit into memory together is unknown: measure each job's peak. {_sentence(head)}",
        )
    if within is None:
        return said("measure first", head)
    head = f"{head}: the worst is predicted to pay {significant(worst)} x"
    if within <= at.dont_up_to:
        return said("don't", f"{head}.")
    if known.extrapolating:
        return said("measure first", f"{head}, but the prediction goes beyond what the model has seen.")
    if within < at.share_from:
        return said("measure first", f"{head}; too close to call, so run them together once.")
    if (together := throughput(known.slowdowns)) < WORTHWHILE:
        return said("don't", f"{head}, but together they would do only {together:.2f} times the work.")
    tail = " Their memory is tight." if case.memory == "tight" else ""
    return said("share", f"{head}.{tail}")


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
