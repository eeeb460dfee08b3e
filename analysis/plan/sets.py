"""What each set of jobs costs on a GPU: measured where it ran, else as a model predicts it; and whether to share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from analysis.interference import decision
from analysis.interference import sets as measured_sets
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, SlowdownMatrix, slowdown_matrix
from analysis.interference.rules.baselines import FASTER_THAN_ALONE, flagged_workloads
from analysis.predict.evaluate.folding import deviation_of
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models import evidence, models
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.queries import coruns

Names: TypeAlias = tuple[str, ...]
Verdict: TypeAlias = Literal["share", "don't", "measure first"]

#: Rows that are predicted at once.
_BLOCK = 20_000


@dataclass(frozen=True)
class SetFigures:
    """What a set of workloads costs its members.

    Attributes
    ----------
    jobs : tuple of str
        Workloads, sorted; one may stand there twice.
    slowdowns : tuple of float
        S of each; NaN where nothing says.
    lows, highs : tuple of float or None
        Ends of the interval in which S lies in nine of ten cases; None where no measured co-run stands behind one. Of
        a measured set both are the measurement.
    evidence : str
        measured, stalls, counters, telemetry, composed (from measured pairs), none.
    ran : bool or None
        Whether the set ran together; None where it was never tried.
    doubted : bool
        Whether the data checks doubt a figure.
    simulated : bool
        Whether the figures come from a simulator.
    beyond : bool
        Whether an input is outside of what the model has seen.
    """

    jobs: Names
    slowdowns: tuple[float, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    evidence: str
    ran: bool | None = None
    doubted: bool = False
    simulated: bool = False
    beyond: bool = False

    @property
    def known(self) -> bool:
        """Whether every member has a figure."""
        return all(math.isfinite(value) for value in self.slowdowns)

    @property
    def stp(self) -> float:
        """System throughput of the set; NaN where a figure is missing."""
        return sum(1 / value for value in self.slowdowns) if self.known else math.nan

    @property
    def upper(self) -> tuple[float, ...]:
        """S at the upper end of the interval; infinite where there is none."""
        return tuple(math.inf if high is None else high for high in self.highs)

    def probability(self, limits: Sequence[float]) -> float | None:
        """Return the probability in percent that every member stays within its limit; None without an interval.

        The ends of the interval are read as the 5th and 95th percentile of ln S, each side by itself. Members may go
        wrong together or not: the sum of their probabilities of doing so bounds both.
        """
        if not self.known:
            return None
        wrong = 0.0
        for value, low, high, limit in zip(self.slowdowns, self.lows, self.highs, limits, strict=True):
            if low is None or high is None:
                return None
            end = high if limit >= value else low
            spread = abs(math.log(end / value)) / 1.6449
            gap = math.log(limit / value)
            wrong += (0.0 if gap >= 0 else 1.0) if spread < 1e-9 else 1 - NormalDist().cdf(gap / spread)
        return 100 * max(0.0, 1 - wrong)


@dataclass(frozen=True)
class Decision:
    """Whether a set may share: the word, the reason, and the probability in percent behind it."""

    verdict: Verdict
    why: str
    probability: float | None


def decide(figures: SetFigures, limits: float | Sequence[float]) -> Decision:
    """Say whether a set of jobs whose memory fits may share a GPU.

    Parameters
    ----------
    figures : SetFigures
        What the set costs.
    limits : float or sequence of float
        Largest slowdown that each member may pay, in the order of ``figures.jobs``.

    Returns
    -------
    Decision
        Measured: share if every member stays within its limit and STP is 1.1 or more. Predicted: share from a
        probability of 80 % on, don't up to 20 %, else measure first.
    """
    each = [limits] * len(figures.jobs) if isinstance(limits, int | float) else list(limits)
    known = figures.known
    # Members may have limits of their own: the one that is nearest to its limit, or furthest beyond, decides.
    at = max(range(len(each)), key=lambda one: figures.slowdowns[one] / each[one]) if known else 0
    measured = known and figures.evidence == "measured"
    chance = None if measured else figures.probability(each)
    found = decision.decide(
        decision.Case(
            each[at],
            "fits",
            figures.slowdowns if measured else (),
            figures.slowdowns[at] if measured else None,
            ran=int(measured),
            failed=int(figures.ran is False),
            doubtful=("one of them",) if figures.doubted else (),
            forecast=None
            if measured
            else decision.Forecast(
                figures.slowdowns,
                None if chance is None else chance / 100,
                figures.beyond,
                "composed" if figures.evidence == "composed" else "predicted",
                evidence=figures.evidence,
            ),
            simulated=figures.simulated,
        )
    )
    if measured:
        return Decision(found.verdict, found.why, 100.0 if figures.slowdowns[at] <= each[at] else 0.0)
    return Decision(found.verdict, found.why, 0.0 if figures.ran is False else found.within_limit)


class Figures(Protocol):
    """Where a solver gets its figures from."""

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        """Return what each set of workloads (sorted names) costs on a GPU."""
        ...


class LibraryFigures:
    """Figures from the library: measured sets first, then a model, then measured pairs put together.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set of the workloads.
    mechanism : str, optional
        How they share; by default what was measured most on each GPU.
    model_id : str, optional
        A stored model for what was not measured.
    """

    def __init__(
        self, database: Database, dataset: str, mechanism: str | None = None, model_id: str | None = None
    ) -> None:
        self.database, self.dataset, self.mechanism, self.model_id = database, dataset, mechanism, model_id
        self.notes: list[str] = []
        self._known: dict[tuple[str, Names], SetFigures] = {}
        self._measured: dict[str, tuple[SlowdownMatrix | None, dict[Names, Any]]] = {}

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        """Return what each set of workloads (sorted names) costs on a GPU."""
        matrix, larger = self._measurements(gpu)
        open_sets: list[Names] = []
        for one in dict.fromkeys(sets):
            if (gpu, one) in self._known:
                continue
            found = _of_measured(one, matrix, larger)
            if found is None:
                open_sets.append(one)
            else:
                self._known[gpu, one] = found
        if open_sets:
            predicted = self._predicted(gpu, open_sets) if self.model_id is not None else {}
            for one in open_sets:
                self._known[gpu, one] = predicted.get(one) or _composed(one, matrix)
        return {one: self._known[gpu, one] for one in sets}

    def _measurements(self, gpu: str) -> tuple[SlowdownMatrix | None, dict[Names, Any]]:
        if gpu in self._measured:
            return self._measured[gpu]
        table = coruns.gpus_and_mechanisms(self.database, self.dataset)
        here = table[table["gpu"].astype(str).map(lambda name: reference.matches(str(name), gpu))]
        if self.mechanism is not None:
            here = here[here["mechanism"].astype(str).str.casefold() == self.mechanism.casefold()]
        if here.empty:
            self._measured[gpu] = (None, {})
            self._note(f"Nothing was measured on {gpu} under {self.mechanism or 'any mechanism'} in {self.dataset}.")
            return self._measured[gpu]
        first = here.sort_values("runs", ascending=False, kind="stable").iloc[0]
        stored, how = str(first["gpu"]), str(first["mechanism"])
        if stored != gpu and here["gpu"].nunique() > 1:
            self._note(f"{gpu} fits several measured GPUs; the figures are of {stored}.")
        matrix = slowdown_matrix(self.database, self.dataset, stored, how)
        larger: dict[Names, Any] = {}
        if int(here["k_max"].max()) > 2:
            rows = measured_sets.measured_sets(self.database, self.dataset, stored, how)
            larger = {tuple(row["jobs"]): row for row in rows[rows["k"] > 2].to_dict("records")}
        self._measured[gpu] = (matrix, larger)
        return self._measured[gpu]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _predicted(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        assert self.model_id is not None  # noqa: S101 -- for the type checker
        manifest, estimator = models.load(self.database, self.model_id)
        how = self.mechanism or manifest.mechanisms[0]
        seen = reference.resolve(gpu, manifest.gpus)
        if not seen or how.casefold() not in {name.casefold() for name in manifest.mechanisms}:
            self._note(f"The model has seen {', '.join(manifest.gpus)} under {', '.join(manifest.mechanisms)} only.")
        table = profiles.collect(self.database, self.dataset)
        if WHITE_BOX in manifest.columns:
            table = whitebox_sets.attach(table, self.database, self.dataset)
        where = seen[0] if seen else gpu
        profiled = {str(name) for place, name in table.index if place == where}
        known = [one for one in sets if set(one) <= profiled]
        found: dict[Names, SetFigures] = {}
        for start in range(0, len(known), _BLOCK):
            part = known[start : start + _BLOCK]
            found |= _blocks(part, table, where, how, manifest, estimator, calibrated=bool(seen))
        # A prediction from a doubted solo baseline is doubted too.
        doubted = {name for _, name in flagged_workloads(self.database, self.dataset, where)}
        return {
            one: replace(figures, doubted=True) if doubted.intersection(one) else figures
            for one, figures in found.items()
        }


def _blocks(
    sets: Sequence[Names], table: Any, gpu: str, mechanism: str, manifest: Manifest, estimator: Any, *, calibrated: bool
) -> dict[Names, SetFigures]:
    """Predict sets at once, with the intervals of the protocol that each of them resembles."""
    X = rows_for_sets(table, sets, gpu, mechanism)
    values = np.asarray(estimator.predict(X), dtype=np.float64)
    size = np.array([len(one) for one in sets])
    known = np.array([set(one) <= set(manifest.workloads) for one in sets])
    covered = np.array([calibrated and len(one) in manifest.k for one in sets])
    lows, highs = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for protocol, which in (("unseen-pair", known), ("leave-one-workload-out", ~known)):
        calibration = manifest.calibrated(protocol)
        rows = np.repeat(which & covered, size)
        if calibration is None or not rows.any():
            continue
        part = X.loc[rows].reset_index(drop=True)
        lows[rows], highs[rows] = calibration.interval(values[rows], deviation_of(estimator, part, calibration))
    beyond = _beyond(X, manifest)
    tiers = {name: evidence.evidence_of(table.loc[(gpu, name)]) for name in {job for one in sets for job in one}}
    found: dict[Names, SetFigures] = {}
    at = 0
    for one in sets:
        own = slice(at, at + len(one))
        at += len(one)
        found[one] = SetFigures(
            one, tuple(np.exp(values[own]).tolist()),
            tuple(None if math.isnan(v) else math.exp(v) for v in lows[own].tolist()),
            tuple(None if math.isnan(v) else math.exp(v) for v in highs[own].tolist()),
            evidence.weakest([tiers[job] for job in one]), simulated=manifest.simulated, beyond=bool(beyond[own].any()),
        )  # fmt: skip
    return found


def _beyond(X: Any, manifest: Manifest) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return the rows that hold a value well outside of the training range."""
    outside = np.zeros(len(X), dtype=bool)
    for name, (low, high) in manifest.ranges.items():
        if name in X:
            value, slack = X[name].to_numpy(float), 0.05 * (high - low)
            outside |= (value < low - slack) | (value > high + slack)
    return outside


def _of_measured(one: Names, matrix: SlowdownMatrix | None, larger: dict[Names, Any]) -> SetFigures | None:
    """Return what was measured of a set; None where it never ran."""
    if matrix is None:
        return None
    if len(one) == 2:
        if not set(one) <= set(matrix.workloads):
            return None
        i, j = (matrix.workloads.index(name) for name in one)
        failed = matrix.failed[i, j] > 0 and matrix.runs[i, j] == 0
        if failed or DID_NOT_RUN in (matrix.state[i, j], matrix.state[j, i]):
            return _plain(one, (math.nan, math.nan), "measured", ran=False, simulated=matrix.simulated)
        slow: tuple[float, ...] = (float(matrix.slowdown[i, j]), float(matrix.slowdown[j, i]))
        if not all(map(math.isfinite, slow)):
            return None
        doubted = FLAGGED in (matrix.state[i, j], matrix.state[j, i]) or min(slow) < FASTER_THAN_ALONE
        return _plain(one, slow, "measured", ran=True, doubted=doubted, simulated=matrix.simulated)
    row = larger.get(one)
    if row is None:
        return None
    slow = tuple(float(value) for value in row["slowdowns"])
    if row["ran"] == 0:
        return _plain(one, (math.nan,) * len(one), "measured", ran=False, simulated=matrix.simulated)
    if not all(map(math.isfinite, slow)):
        return None
    doubted = bool(row["flagged"]) or min(slow) < FASTER_THAN_ALONE
    return _plain(one, slow, "measured", ran=True, doubted=doubted, simulated=matrix.simulated)


def _plain(one: Names, slow: tuple[float, ...], evidence: str, **more: Any) -> SetFigures:
    ends = slow if evidence == "measured" else (None,) * len(one)
    return SetFigures(one, slow, ends, ends, evidence, **more)


def _composed(one: Names, matrix: SlowdownMatrix | None) -> SetFigures:
    """Put measured pairs together for a set that never ran; it has no interval, so it is never shared unasked."""
    if matrix is None or len(one) < 3:
        return _plain(one, (math.nan,) * len(one), "none")
    slow = measured_sets.compose(matrix, one)
    known = all(map(math.isfinite, slow))
    return _plain(one, slow, "composed" if known else "none", simulated=matrix.simulated)


class FixedFigures:
    """Figures given as they are, for tests, experiments and replays.

    Parameters
    ----------
    figures : iterable of SetFigures
        One a set; the same on every GPU.
    """

    def __init__(self, figures: Iterable[SetFigures]) -> None:
        self._known = {one.jobs: one for one in figures}

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        """Return what each set costs; one that was not given has no figure."""
        return {one: self._known.get(one) or _plain(one, (math.nan,) * len(one), "none") for one in sets}


def of_matrix(workloads: Sequence[str], slowdown: Any, *, evidence: str = "measured") -> FixedFigures:
    """Return the figures of all pairs of a matrix of slowdowns (row: who is slowed, column: by whom)."""
    values = np.asarray(slowdown, dtype=np.float64)
    rows = []
    for i, first in enumerate(workloads):
        for j in range(i, len(workloads)):
            a, b = sorted(((first, i), (workloads[j], j)))
            slow = (float(values[a[1], b[1]]), float(values[b[1], a[1]]))
            rows.append(_plain((a[0], b[0]), slow, evidence, ran=True))
    return FixedFigures(rows)
