"""What a campaign measures: jobs, sets, how long, how often; read from a TOML file or put together by a command."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import math
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from analysis.capture.corun import MECHANISMS, Timing
from analysis.capture.process import JobSpec
from analysis.capture.rate import RateBy
from analysis.errors import InputRefusedError, UsageError, Where

#: Prior standard deviation of sensitivities and pressures, and that of a measurement, in ln S.
_PRIOR, _NOISE = 0.3, 0.05
#: Beyond this many, choosing costs more than it tells: the rest follow in the order given.
_MOST = 600


def informative(sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Order sets of jobs, those first that tell most beside the ones before them.

    Parameters
    ----------
    sets : sequence of tuple of str
        Jobs that would run together; a job may stand twice.

    Returns
    -------
    list of tuple of str
        All of them, once each.
    """
    todo = list(dict.fromkeys(sets))
    names = sorted({name for one in todo for name in one})
    place = {name: number for number, name in enumerate(names)}
    size = 2 * len(names)
    covariance = [[_PRIOR**2 * (a == b) for b in range(size)] for a in range(size)]
    rows = {one: _rows(one, place, len(names)) for one in todo}
    # Gains only fall, so an old gain bounds the new one: only the top of the heap is ever computed again.
    heap = [(-math.inf, number, one) for number, one in enumerate(todo)]
    heapq.heapify(heap)
    out: list[tuple[str, ...]] = []
    while heap and len(out) < _MOST:
        _, number, one = heapq.heappop(heap)
        gain = _gain(covariance, rows[one])
        if heap and gain < -heap[0][0] - 1e-12:
            heapq.heappush(heap, (-gain, number, one))
            continue
        out.append(one)
        for row in rows[one]:
            _learn(covariance, row)
    return out + [one for _, _, one in sorted(heap, key=lambda entry: entry[1])]


def _rows(one: tuple[str, ...], place: dict[str, int], count: int) -> list[dict[int, float]]:
    rows = []
    for victim, name in enumerate(one):
        row: dict[int, float] = {place[name]: 1.0}
        for other, presser in enumerate(one):
            if other != victim:
                row[count + place[presser]] = row.get(count + place[presser], 0.0) + 1.0
        rows.append(row)
    return rows


def _times(covariance: list[list[float]], row: dict[int, float]) -> list[float]:
    return [sum(line[at] * value for at, value in row.items()) for line in covariance]


def _gain(covariance: list[list[float]], rows: list[dict[int, float]]) -> float:
    """Return ln det(I + R C R' / noise²): the information of some rows, each given those before."""
    gram = [
        [
            sum(covariance[a][b] * x * y for a, x in one.items() for b, y in other.items()) / _NOISE**2
            for other in rows
        ]
        for one in rows
    ]  # fmt: skip
    for number in range(len(gram)):
        gram[number][number] += 1.0
    total = 0.0
    for pivot in range(len(gram)):  # Gaussian elimination: the determinant is the product of the pivots
        total += math.log(gram[pivot][pivot])
        for below in range(pivot + 1, len(gram)):
            factor = gram[below][pivot] / gram[pivot][pivot]
            gram[below] = [x - factor * y for x, y in zip(gram[below], gram[pivot], strict=True)]
    return total


def _learn(covariance: list[list[float]], row: dict[int, float]) -> None:
    """Update the covariance in place by one measurement (Sherman and Morrison)."""
    seen = _times(covariance, row)
    scale = 1.0 / (_NOISE**2 + sum(seen[at] * value for at, value in row.items()))
    active = [at for at, value in enumerate(seen) if value]
    for a in active:
        factor = seen[a] * scale
        line = covariance[a]
        for b in active:
            line[b] -= factor * seen[b]


_TOP = {
    "mechanism",
    "seconds",
    "warmup",
    "start",
    "repeats",
    "windows",
    "budget_minutes",
    "pairs",
    "self_pairs",
    "sets",
    "jobs",
}
_JOB = {"command", "throughput", "pattern", "per_line", "unit", "environment"}


@dataclass(frozen=True)
class Task:
    """One run to do.

    Attributes
    ----------
    names : tuple of str
        The jobs; one alone is a solo.
    repeat : int
        From 1.
    percents : tuple of float or None
        Active thread percentages, one a job; empty without.
    """

    names: tuple[str, ...]
    repeat: int
    percents: tuple[float | None, ...] = ()

    @property
    def key(self) -> str:
        """Name in the journal and run id."""
        shares = (
            "" if not self.percents else "@" + ",".join("-" if one is None else f"{one:g}" for one in self.percents)
        )
        return f"{' + '.join(self.names)}{'@' if shares else ''}{shares} #{self.repeat}"


@dataclass(frozen=True)
class Plan:
    """A campaign.

    Attributes
    ----------
    jobs : mapping of str to JobSpec
        By workload.
    sets : tuple of tuple of str
        Sets of two or more, in the order in which they are to be measured.
    mechanism : str
        ``mps`` or ``time-slicing``.
    timing : Timing
        Lengths of a run.
    repeats : int
        Of every run.
    budget : float or None
        Seconds; no run is started that would not fit.
    solos : bool
        Whether every job is measured alone first.
    percents : mapping
        Set -> active thread percentages.
    """

    jobs: Mapping[str, JobSpec]
    sets: tuple[tuple[str, ...], ...]
    mechanism: str = "mps"
    timing: Timing = field(default_factory=Timing)
    repeats: int = 1
    budget: float | None = None
    solos: bool = True
    percents: Mapping[tuple[str, ...], tuple[float | None, ...]] = field(default_factory=dict)

    def tasks(self) -> list[Task]:
        """Return all runs in order: first repeats of everything before second ones, jobs alone before sets."""
        out = []
        for repeat in range(1, self.repeats + 1):
            if self.solos:
                out += [Task((name,), repeat) for name in self.jobs]
            out += [Task(one, repeat, self.percents.get(one, ())) for one in self.sets]
        return out

    @property
    def digest(self) -> str:
        """What results depend on, as a hash: a journal of other jobs is not gone on with."""
        parts = {name: asdict(spec) for name, spec in self.jobs.items()}
        text = json.dumps([self.mechanism, parts, asdict(self.timing)], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_plan(path: Path) -> Plan:
    """Read a campaign file.

    Raises
    ------
    InputRefusedError
        If it can't be read, or what it says can't be done; nothing was started then.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputRefusedError(
            f"the campaign can't be read: {error.strerror or error}", "Check the path.", Where(str(path))
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputRefusedError(f"the campaign is no TOML: {error}", "Correct it.", Where(str(path))) from error
    try:
        return _plan(document)
    except UsageError as error:
        raise InputRefusedError(error.what, error.cure, Where(str(path))) from error


def _plan(document: Mapping[str, Any]) -> Plan:
    _known(document, _TOP, "the campaign")
    listed = document.get("jobs")
    if not isinstance(listed, dict) or not listed:
        raise UsageError(
            "there are no jobs", 'Add a table for each, such as [jobs.bert] with command = "python bert.py".'
        )
    jobs = {str(name): _job(str(name), one) for name, one in listed.items()}
    mechanism = document.get("mechanism", "mps")
    if mechanism not in MECHANISMS:
        raise UsageError(f"mechanism {mechanism!r} is unknown", f"Use one of {', '.join(MECHANISMS)}.")
    timing = Timing(
        seconds=_number(document, "seconds", 20.0),
        warmup=_number(document, "warmup", 5.0),
        start=_number(document, "start", 300.0),
        windows=max(1, int(_number(document, "windows", 1))),
    )
    budget = document.get("budget_minutes")
    return Plan(
        jobs=jobs,
        sets=tuple(_sets(document, list(jobs))),
        mechanism=mechanism,
        timing=timing,
        repeats=max(1, int(_number(document, "repeats", 1))),
        budget=None if budget is None else _number(document, "budget_minutes", 0) * 60,
    )


def _job(name: str, one: Any) -> JobSpec:
    if not isinstance(one, dict) or "command" not in one:
        raise UsageError(f"job {name} has no command", 'Write command = "PROGRAM ARGUMENTS".')
    _known(one, _JOB, f"job {name}")
    command = one["command"]
    words = tuple(shlex.split(command)) if isinstance(command, str) else tuple(str(word) for word in command)
    if not words:
        raise UsageError(f"job {name} has an empty command", 'Write command = "PROGRAM ARGUMENTS".')
    way = one.get("throughput", "steps")
    if way not in ("regex", "lines", "steps"):
        raise UsageError(f"job {name}: throughput {way!r} is unknown", "Use regex, lines or steps.")
    by = RateBy(way, str(one.get("pattern", "")), float(one.get("per_line", 1.0)), str(one.get("unit", "it/s")))
    environment = {str(key): str(value) for key, value in dict(one.get("environment", {})).items()}
    return JobSpec(name, words, by, environment=environment)


def _sets(document: Mapping[str, Any], names: Sequence[str]) -> list[tuple[str, ...]]:
    wanted = document.get("pairs", "all")
    if wanted == "all":
        pairs = all_pairs(names, twins=bool(document.get("self_pairs", True)))
    elif wanted == "none":
        pairs = []
    elif isinstance(wanted, list):
        pairs = [_set(one, names) for one in wanted]
    else:
        raise UsageError(f"pairs {wanted!r} is unknown", 'Write "all", "none", or a list of pairs.')
    larger = [_set(one, names) for one in document.get("sets", [])]
    return informative(pairs) + informative([one for one in larger if one not in pairs])


def _set(one: Any, names: Sequence[str]) -> tuple[str, ...]:
    if not isinstance(one, list) or len(one) < 2:
        raise UsageError(f"{one!r} is no set of two or more jobs", "Write a list of job names.")
    unknown = [name for name in one if name not in names]
    if unknown:
        raise UsageError(f"there is no job {unknown[0]!r}", f"The jobs are {', '.join(names)}.")
    return tuple(str(name) for name in one)


def all_pairs(names: Sequence[str], *, twins: bool = True) -> list[tuple[str, ...]]:
    """Return every pair of jobs, with each beside its twin where asked: 36 of 8."""
    pick = itertools.combinations_with_replacement if twins else itertools.combinations
    return [tuple(pair) for pair in pick(names, 2)]


def _known(document: Mapping[str, Any], names: set[str], what: str) -> None:
    unknown = sorted(set(document) - names)
    if unknown:
        raise UsageError(f"{what} has the unknown entry {unknown[0]!r}", f"Known are {', '.join(sorted(names))}.")


def _number(document: Mapping[str, Any], name: str, default: float) -> float:
    value = document.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UsageError(f"{name} {value!r} is no number from 0 on", "Write a number.")
    return float(value)
