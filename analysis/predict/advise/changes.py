"""What would bring a set within a limit: the smallest changes among measured and predicted neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.interference.memory import Memory, memory_fit, peaks
from analysis.interference.rules.baselines import FASTER_THAN_ALONE, flagged_workloads
from analysis.numbers import slowdown as times
from analysis.predict.advise.neighbours import Likeness, measured_sets
from analysis.predict.frame import profiles, whitebox_sets
from analysis.predict.frame.features import rows_for_sets
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.models import models
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.queries import coruns

#: Kinds of change, the smallest first: each asks more of the user than the one before.
SETTING, MECHANISM, GPU, FEWER, SWAP = "other setting", "other mechanism", "other GPU", "one job fewer", "other partner"
_ORDER = (SETTING, MECHANISM, GPU, FEWER, SWAP)

MEASURED, SIMULATED, PREDICTED = "measured", "simulated", "predicted"

#: Partners tried in the place of a job, those most like it first.
_MOST_TRIED = 200

#: Fewer where each set is a queueing network to be solved: for pairs, and for larger sets.
_MOST_SOLVED = (24, 6)


@dataclass(frozen=True)
class Change:
    """One change and what the set then pays.

    Attributes
    ----------
    kind, what : str
        One of the kinds above; the change in words.
    jobs : tuple of str
        The set after it.
    gpu, mechanism : str
        Where and how it runs after it.
    worst, stp : float
        Largest S, and the system throughput.
    slowdowns : tuple of float
        S of each job.
    origin : str
        measured, simulated or predicted.
    memory : str
        fits, tight, does_not_fit, unknown.
    size : float
        How far the jobs differ from those asked about.
    """

    kind: str
    what: str
    jobs: tuple[str, ...]
    gpu: str
    mechanism: str
    worst: float
    stp: float
    slowdowns: tuple[float, ...]
    origin: str
    memory: Memory
    size: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Changes:
    """What was found.

    Attributes
    ----------
    within : tuple of Change
        Changes that keep the limit, the smallest kind first.
    closest : Change or None
        Where none does, the one that comes closest; None where no other set is known at all.
    """

    within: tuple[Change, ...]
    closest: Change | None = None


@dataclass(frozen=True)
class _Candidate:
    kind: str
    what: str
    jobs: tuple[str, ...]
    gpu: str
    mechanism: str
    size: float


def smallest_changes(
    database: Database,
    model_id: str,
    gpu: str,
    jobs: Sequence[str],
    mechanism: str,
    limit: float,
    most: int = 8,
) -> Changes:
    """Find the smallest changes after which no job of the set is slowed more than a limit.

    Tried are: another batch size, precision or phase of one job; another mechanism or GPU where this very set was
    measured; one job fewer; another partner in the place of one job. A measurement counts before a prediction. A set
    whose memory does not fit is no answer.

    Parameters
    ----------
    database : Database
        The open database.
    model_id : str
        The model that is asked where nothing was measured.
    gpu, jobs, mechanism
        The set, as in `models.predict`.
    limit : float
        Largest S of each job.
    most : int
        Changes returned.

    Returns
    -------
    Changes
        At most three of a kind; where no change keeps the limit, the one that comes closest.
    """
    manifest, estimator = models.load(database, model_id)
    here = (reference.resolve(gpu, manifest.gpus) or [reference.canonical(gpu)])[0]
    dataset, asked = manifest.dataset, tuple(jobs)
    table = profiles.collect(database, dataset)
    if WHITE_BOX in manifest.columns:
        table = whitebox_sets.attach(table, database, dataset)
    at = table[table.index.get_level_values("gpu") == here]
    like, known = Likeness.of(database, dataset), [str(name) for name in at.index.get_level_values("workload")]
    each = _MOST_SOLVED[len(asked) > 2] if WHITE_BOX in manifest.columns else _MOST_TRIED
    tried = [*_settings_and_swaps(asked, known, like, here, mechanism, each), *_fewer(asked, here, mechanism)]
    ran = {(here, mechanism): measured_sets(database, dataset, here, mechanism)}
    for place in coruns.gpus_and_mechanisms(database, dataset).itertuples():
        where = (str(place.gpu), str(place.mechanism))
        if where == (here, mechanism):
            continue
        ran[where] = measured_sets(database, dataset, *where)
        kind = MECHANISM if where[0] == here else GPU
        if tuple(sorted(asked)) in set(ran[where]["jobs"]):
            what = f"{where[1]} instead of {mechanism}" if kind == MECHANISM else f"{where[0]} under {where[1]}"
            tried.append(_Candidate(kind, what, asked, *where, 0.0))
    by_place: dict[tuple[str, str], dict[tuple[str, ...], Any]] = {
        where: {tuple(map(str, jobs)): row for jobs, row in zip(sets["jobs"], sets.itertuples(), strict=True)}
        for where, sets in ran.items()
    }
    predicted = _predict(estimator, table, at, tried, by_place, here, mechanism)
    room = {where: peaks(database, dataset, where) for where in {one.gpu for one in tried}}
    flagged = flagged_workloads(database, dataset)
    found = []
    for one in tried:
        row = by_place[one.gpu, one.mechanism].get(tuple(sorted(one.jobs)))
        if row is not None and (
            min(row.values) < FASTER_THAN_ALONE or not {(one.gpu, job) for job in one.jobs}.isdisjoint(flagged)
        ):
            continue  # a doubtful baseline proves no limit kept
        if row is not None:
            values, origin = _in_order(one.jobs, row), SIMULATED if row.simulated else MEASURED
        elif one in predicted:
            values, origin = predicted[one], PREDICTED
        else:
            continue
        memory = _memory(room[one.gpu], one.jobs, one.gpu)
        if memory != "does_not_fit":
            total = float(np.sum(1.0 / np.asarray(values)))
            found.append(
                Change(one.kind, one.what, one.jobs, one.gpu, one.mechanism, max(values), total, values, origin, memory,
                       one.size)
            )  # fmt: skip
    found.sort(key=lambda one: (_ORDER.index(one.kind), one.origin == PREDICTED, round(one.size, 3), one.worst))
    kept: list[Change] = []
    for kind in _ORDER:
        kept += [one for one in found if one.kind == kind and one.worst <= limit][:3]
    if kept or not found:
        return Changes(tuple(kept[:most]))
    return Changes((), min(found, key=lambda one: one.worst))


def sentence(changes: Changes, limit: float) -> str:
    """Say the smallest change, or that none was found and which comes closest."""
    if not changes.within:
        none = f"No single change among what was measured or can be predicted here keeps every job within {limit:g} x."
        one = changes.closest
        if one is None:
            return none
        return f"{none} Closest comes {one.what}: the worst then pays {times(one.worst)} ({one.origin})."
    first = changes.within[0]
    return (
        f"The smallest change found that keeps every job within {limit:g} x: {first.what}; the worst then pays "
        f"{times(first.worst)} ({first.origin})."
    )


def _settings_and_swaps(
    asked: tuple[str, ...], known: Sequence[str], like: Likeness, gpu: str, mechanism: str, each: int
) -> Iterator[_Candidate]:
    for slot, job in enumerate(asked):
        if asked.index(job) != slot:
            continue  # a twin's twin gives the same sets again
        others = sorted((name for name in known if name != job), key=lambda name: (like.apart(job, name), name))
        for name in others[:each]:
            kind = SETTING if like.of_one_model(job, name) and like.settings(job, name) != [] else SWAP
            after = (*asked[:slot], name, *asked[slot + 1 :])
            yield _Candidate(kind, like.difference(job, name), after, gpu, mechanism, like.apart(job, name))


def _fewer(asked: tuple[str, ...], gpu: str, mechanism: str) -> Iterator[_Candidate]:
    if len(asked) > 2:
        for slot, job in enumerate(asked):
            if asked.index(job) == slot:
                yield _Candidate(FEWER, f"without {job}", (*asked[:slot], *asked[slot + 1 :]), gpu, mechanism, 1.0)


def _predict(
    estimator: Any,
    table: pd.DataFrame,
    at: pd.DataFrame,
    tried: Sequence[_Candidate],
    ran: dict[tuple[str, str], dict[tuple[str, ...], Any]],
    gpu: str,
    mechanism: str,
) -> dict[_Candidate, tuple[float, ...]]:
    """Predict the sets that were not measured, all at once for each number of jobs."""
    known = set(at.index.get_level_values("workload"))
    here = [
        one
        for one in tried
        if (one.gpu, one.mechanism) == (gpu, mechanism)
        and tuple(sorted(one.jobs)) not in ran[gpu, mechanism]
        and set(one.jobs) <= known
    ]
    found: dict[_Candidate, tuple[float, ...]] = {}
    for k in sorted({len(one.jobs) for one in here}):
        part = [one for one in here if len(one.jobs) == k]
        X = rows_for_sets(table, [one.jobs for one in part], gpu, mechanism)
        values = np.exp(np.asarray(estimator.predict(X), dtype=np.float64)).reshape(len(part), k)
        found |= {
            one: tuple(float(value) for value in row)
            for one, row in zip(part, values, strict=True)
            if np.isfinite(row).all()
        }
    return found


def _in_order(jobs: tuple[str, ...], row: Any) -> tuple[float, ...]:
    """Return a measured set's values in the order of the jobs asked about."""
    left: dict[str, list[float]] = {}
    for job, value in zip(row.jobs, row.values, strict=True):
        left.setdefault(job, []).append(value)
    return tuple(left[job].pop(0) for job in jobs)


def _memory(known: pd.DataFrame, jobs: Sequence[str], gpu: str) -> Memory:
    found = known.reindex(list(jobs))
    kinds = [kind if isinstance(kind, str) else None for kind in found["memory_kind"]]
    capacity = float(reference.load()["memory_mib"].get(gpu, np.nan))
    return memory_fit([float(value) for value in found["peak_memory_mib"]], kinds, capacity)
