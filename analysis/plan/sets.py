"""What each set of jobs costs on a GPU: measured where it ran, else as a model predicts it; and whether to share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from analysis.errors import StallScopeError
from analysis.interference import decision
from analysis.interference.decision import Case, Decision, Forecast
from analysis.interference.memory import Memory, after_running
from analysis.interference.ran import RanSets, ran_sets
from analysis.predict.models import models, unanswered
from analysis.predict.models.activemodel import answering
from analysis.predict.models.composing import composed
from analysis.predict.models.many import Foreseen, foresee
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

Names: TypeAlias = tuple[str, ...]

#: Given each member's limit: the probability that all stay within theirs, and the left-out sets behind it.
Chance: TypeAlias = Callable[[Sequence[float]], "tuple[float, int] | None"]


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
        measured, stalls, counters, telemetry, composed (of measured pairs), effects (of each job), none.
    ran : bool or None
        Whether the set ran together; None where it was never tried.
    runs, failed : int
        Runs that ran, and that did not.
    worst : float or None
        Largest S of one run, the median over the runs; by default the largest of the slowdowns.
    doubtful : tuple of str
        Jobs whose figure the data checks doubt.
    simulated : bool
        Whether the figures come from a simulator.
    beyond : bool
        Whether an input is outside of what the model has seen.
    n : int
        Runs behind the model or the pairs.
    chance : callable or None
        The probability of the members' limits; None where no calibration covers the set.
    """

    jobs: Names
    slowdowns: tuple[float, ...]
    lows: tuple[float | None, ...]
    highs: tuple[float | None, ...]
    evidence: str
    ran: bool | None = None
    runs: int = 0
    failed: int = 0
    worst: float | None = None
    doubtful: tuple[str, ...] = ()
    simulated: bool = False
    beyond: bool = False
    n: int = 0
    chance: Chance | None = None

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

    def certainty(self, limits: Sequence[float]) -> float:
        """Return the probability that every member stays within its limit, 0 where nothing says; 0 or 1 of a run."""
        if self.evidence == "measured":
            return float(all(value <= limit for value, limit in zip(self.slowdowns, limits, strict=True)))
        found = self.chance(limits) if self.chance is not None else None
        return found[0] if found else 0.0


def memory_now(figures: SetFigures, memory: Memory) -> Memory:
    """Return what is shown of a set's memory: a run counts before an estimate."""
    return after_running(memory, bool(figures.ran) and not figures.failed)


def decide(figures: SetFigures, limits: float | Sequence[float], memory: Memory = "fits") -> Decision:
    """Say whether a set of jobs may share a GPU, as everywhere.

    Parameters
    ----------
    figures : SetFigures
        What the set costs.
    limits : float or sequence of float
        Largest slowdown that each member may pay, in the order of ``figures.jobs``.
    memory : str
        As `memory_fit` says.
    """
    each = [limits] * len(figures.jobs) if isinstance(limits, int | float) else list(limits)
    known, worst = figures.known, figures.worst
    at = 0
    if known and len(set(each)) > 1:
        # Members may have limits of their own: the one that is nearest to its limit, or furthest beyond, decides.
        at = max(range(len(each)), key=lambda one: figures.slowdowns[one] / each[one])
        worst = figures.slowdowns[at]
    if figures.ran:
        case = Case(
            each[at], memory, figures.slowdowns, worst, figures.runs, figures.failed, figures.doubtful,
            simulated=figures.simulated,
        )  # fmt: skip
        return decision.decide(case)
    chance = figures.chance(each) if figures.chance is not None else None
    forecast = Forecast(
        figures.slowdowns, chance[0] if chance else None, figures.beyond,
        _basis(figures.evidence), chance[1] if chance else figures.n,
        figures.evidence,
    )  # fmt: skip
    return decision.decide(Case(each[at], memory, failed=figures.failed, doubtful=figures.doubtful, forecast=forecast))


def _basis(evidence: str) -> Literal["predicted", "composed", "effects"]:
    return "composed" if evidence == "composed" else "effects" if evidence == "effects" else "predicted"


class Figures(Protocol):
    """Where a solver gets its figures from."""

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        """Return what each set of workloads (sorted names) costs on a GPU."""
        ...


@dataclass(frozen=True)
class _Place:
    """A GPU as it is stored, the mechanism, and what ran there."""

    gpu: str
    mechanism: str
    ran: RanSets


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
        What answers about sets that were not measured; by default what answers for the data set everywhere.
    """

    def __init__(
        self, database: Database, dataset: str, mechanism: str | None = None, model_id: str | None = None
    ) -> None:
        self.database, self.dataset, self.mechanism = database, dataset, mechanism
        self.model_id = model_id or answering(database, dataset)
        self.notes: list[str] = []
        self._known: dict[tuple[str, Names], SetFigures] = {}
        self._places: dict[str, _Place] = {}

    def of(self, gpu: str, sets: Sequence[Names]) -> dict[Names, SetFigures]:
        """Return what each set of workloads (sorted names) costs on a GPU."""
        place = self._place(gpu)
        open_sets: list[Names] = []
        for one in dict.fromkeys(sets):
            if (gpu, one) in self._known:
                continue
            found = _of_measured(one, place.ran)
            if found is None:
                open_sets.append(one)
            else:
                self._known[gpu, one] = found
        for one, figures in zip(open_sets, self._predicted(place, open_sets), strict=True):
            self._known[gpu, one] = figures
        return {one: self._known[gpu, one] for one in sets}

    def _place(self, gpu: str) -> _Place:
        """Find where a GPU's runs are: of several that fit its name, the one with the most."""
        if gpu in self._places:
            return self._places[gpu]
        table = coruns.gpus_and_mechanisms(self.database, self.dataset)
        here = table[[reference.matches(str(name), gpu) for name in table["gpu"]]]
        if self.mechanism is not None and len(here):
            here = here[here["mechanism"].astype(str).str.casefold() == self.mechanism.casefold()]
        if here.empty:
            self._note(f"Nothing was measured on {gpu} under {self.mechanism or 'any mechanism'} in {self.dataset}.")
            stored, how = reference.canonical(gpu), self.mechanism or ""
        else:
            first = here.sort_values("runs", ascending=False, kind="stable").iloc[0]
            stored, how = str(first["gpu"]), str(first["mechanism"])
            if stored != gpu and here["gpu"].nunique() > 1:
                self._note(f"{gpu} fits several measured GPUs; the figures are of {stored}.")
        self._places[gpu] = _Place(stored, how, ran_sets(self.database, (self.dataset,), stored, how))
        return self._places[gpu]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _predicted(self, place: _Place, sets: Sequence[Names]) -> list[SetFigures]:
        """Return what the model says of sets, and what their pairs do where it has no figure."""
        if not sets:
            return []
        foreseen = self._foreseen(place, sets)
        lacking = [one for one in sets if (there := foreseen.get(one)) is None or not _known(there)]
        pairs = dict(
            zip(lacking, composed(self.database, (self.dataset,), place.gpu, place.mechanism, lacking), strict=True)
        )
        simulated = sources.is_simulated(self.database, self.dataset)
        found = []
        for one in sets:
            doubtful = place.ran.doubtful(one, None)
            here = place.ran.get(one)
            failed = here.failed if here and not here.ran else 0
            more: dict[str, Any] = {
                "ran": False if failed else None, "failed": failed, "doubtful": doubtful, "simulated": simulated,
            }  # fmt: skip
            if one in pairs:
                given = pairs[one]
                found.append(_plain(one, given.slowdowns, given.basis if given.known else "none", n=given.n, **more))
                continue
            said = foreseen[one]
            ends = said.ends()
            nothing: tuple[float | None, ...] = (None,) * len(one)
            lows, highs = (tuple(ends[0].tolist()), tuple(ends[1].tolist())) if ends else (nothing, nothing)
            found.append(
                SetFigures(
                    one, said.slowdowns, lows, highs, said.evidence, beyond=said.extrapolating, n=said.runs,
                    chance=said.chance if said.calibration is not None else None, **more,
                )
            )  # fmt: skip
        return found

    def _foreseen(self, place: _Place, sets: Sequence[Names]) -> dict[Names, Foreseen]:
        manifest, estimator = models.load(self.database, self.model_id)
        seen = reference.resolve(place.gpu, manifest.gpus)
        how = place.mechanism or manifest.mechanisms[0]
        if manifest.runs and (not seen or how not in manifest.mechanisms):
            self._note(f"The model has seen {', '.join(manifest.gpus)} under {', '.join(manifest.mechanisms)} only.")
        jobs = set(sources.workloads(self.database, Filter(datasets=(manifest.dataset,)))["workload"].astype(str))
        asked = [one for one in sets if jobs.issuperset(one)]
        with suppress(StallScopeError):  # it can't be asked about these; the pairs stand in
            found = foresee(self.database, manifest, estimator, place.gpu, how, asked, strange=not seen)
            return dict(zip(asked, found, strict=True))
        return {}


def without_model(dataset: str) -> str:
    """Return what stands in the place of a model where only measurements are to answer."""
    return unanswered.model_id_of(dataset)


def _known(found: Foreseen) -> bool:
    return bool(np.isfinite(found.logs).all())


def _of_measured(one: Names, ran: RanSets) -> SetFigures | None:
    """Return what was measured of a set; None where it never ran with all its values."""
    here = ran.get(one)
    if here is None or not here.ran:
        return None
    slow = here.of([(job, 100.0) for job in one])
    if not slow:
        return None
    return _plain(
        one, slow, "measured", ran=True, runs=here.ran, failed=here.failed, worst=here.worst,
        doubtful=ran.doubtful(one, here), simulated=here.simulated,
    )  # fmt: skip


def _plain(one: Names, slow: tuple[float, ...], evidence: str, **more: Any) -> SetFigures:
    ends = slow if evidence == "measured" else (None,) * len(one)
    return SetFigures(one, slow, ends, ends, evidence, **more)


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
            ran = evidence == "measured"
            rows.append(_plain((a[0], b[0]), slow, evidence, ran=ran or None, runs=int(ran)))
    return FixedFigures(rows)
