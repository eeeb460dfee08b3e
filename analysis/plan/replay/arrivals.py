"""Jobs and when they come: drawn at random, or read from a trace file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from analysis.errors import InputRefusedError, UsageError, Where

#: Gavel's workloads in the order in which its generator draws them.
GAVEL_WORKLOADS = (
    *(f"ResNet-18 (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"ResNet-50 (batch size {size})" for size in (16, 32, 64, 128)),
    *(f"Transformer (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"LM (batch size {size})" for size in (5, 10, 20, 40, 80)),
    *(f"Recommendation (batch size {size})" for size in (512, 1024, 2048, 4096, 8192)),
    "A3C",
    "CycleGAN",
)

#: How jobs come when no trace says it.
ARRIVALS = ("poisson", "at-once", "bursts")

#: Jobs that come together in a burst.
BURST = 10

#: Columns of a line of Gavel's traces.
_GAVEL_COLUMNS = 10

#: Names of columns that an own trace may use, by what they say.
_OWN = {
    "workload": ("workload", "job_type", "model", "name"),
    "arrival": ("arrival_s", "arrival_time", "submit_time", "submitted_s", "arrival"),
    "gap": ("gap_s", "interarrival_s", "gap"),
    "length": ("length_s", "duration_s", "duration", "run_time", "length"),
    "gpus": ("gpus", "num_gpu", "gpu_count", "num_gpus"),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a replay.

    Attributes
    ----------
    number : int
        Its place in the order of arrival, from 0.
    workload : str
        What it runs.
    arrival_s : float
        When it comes, seconds from the start.
    length_s : float
        How long it takes alone on the reference GPU.
    gpus : int
        GPUs it needs at once; more than one is never shared.
    """

    number: int
    workload: str
    arrival_s: float
    length_s: float
    gpus: int = 1


def gavel_jobs(count: int, per_hour: float, seed: int, workloads: Sequence[str] = GAVEL_WORKLOADS) -> list[Job]:
    """Make Gavel's continuous trace again: lengths log-uniform in two ranges, workloads at random, Poisson arrivals.

    Parameters
    ----------
    count : int
        Jobs.
    per_hour : float
        Mean arrivals in an hour.
    seed : int
        Of the trace; jobs and arrivals have generators of their own.
    workloads : sequence of str
        To draw from, in Gavel's order.

    Examples
    --------
    >>> [round(job.arrival_s) for job in gavel_jobs(3, 5.6, 0)]
    [0, 175, 680]
    """
    _positive(per_hour, "jobs per hour")
    jobs, arrivals = Random(seed + 2), Random(seed + 3)  # noqa: S311 - a trace, not a secret
    made, now = [], 0.0
    for number in range(count):
        if number:
            now += -math.log(1.0 - arrivals.random()) * 3600.0 / per_hour
        jobs.random()  # Gavel draws the number of GPUs here, which is always one in this setting
        long = jobs.random() >= 0.8
        length = 60.0 * 10.0 ** (jobs.uniform(3, 4) if long else jobs.uniform(1.5, 3))
        made.append(Job(number, jobs.choice(workloads), now, length))
    return made


def drawn_jobs(
    kind: str, count: int, per_hour: float, seed: int, workloads: Sequence[str], *, mean_length_s: float = 3600.0
) -> list[Job]:
    """Draw jobs: a workload each, lengths log-normal about a mean, and one of three ways of coming.

    Parameters
    ----------
    kind : str
        Of `ARRIVALS`: ``poisson``, ``at-once`` (all at 0), or ``bursts`` (`BURST` at a time, at the same mean rate).
    count : int
        Jobs.
    per_hour : float
        Mean arrivals in an hour; means nothing for ``at-once``.
    seed : int
        Of everything that is drawn.
    workloads : sequence of str
        To draw from.
    mean_length_s : float
        Mean length alone on the reference GPU.

    Raises
    ------
    UsageError
        If a number makes no sense or there is no such kind.
    """
    if kind not in ARRIVALS:
        raise UsageError(f"there are no arrivals {kind!r}", f"Choose of {', '.join(ARRIVALS)}.")
    if count < 1:
        raise UsageError(f"{count} jobs can't be replayed", "Ask for at least 1.")
    _positive(mean_length_s, "seconds of mean length")
    if kind != "at-once":
        _positive(per_hour, "jobs per hour")
    rng = Random(seed)  # noqa: S311 - a trace, not a secret
    spread = 1.0
    made, now = [], 0.0
    for number in range(count):
        if kind == "poisson" and number:
            now += rng.expovariate(per_hour / 3600.0)
        elif kind == "bursts" and number and number % BURST == 0:
            now += rng.expovariate(per_hour / 3600.0 / BURST)
        length = mean_length_s * math.exp(rng.gauss(-0.5 * spread**2, spread))
        made.append(Job(number, rng.choice(list(workloads)), now, length))
    return made


def read_trace(
    path: Path, workloads: Sequence[str] = (), *, steps_per_s: Mapping[str, float] | None = None, seed: int = 0
) -> list[Job]:
    """Read a trace: Gavel's tab-separated form, Alibaba's openb table, or an own CSV.

    Parameters
    ----------
    path : Path
        The file. Gavel's has ten columns and no header: job type, command, working directory, steps argument, needs
        data, total steps, scale factor, priority, SLO and arrival time in seconds. openb has ``creation_time``,
        ``scheduled_time``, ``deletion_time`` and ``num_gpu``. An own CSV has ``workload``, ``arrival_s`` or ``gap_s``,
        ``length_s`` and, if jobs need several, ``gpus``.
    workloads : sequence of str
        Workloads to draw from for jobs that name none, as in openb.
    steps_per_s : mapping of str to float, optional
        Throughput alone, which turns Gavel's steps into seconds.
    seed : int
        Of the draw of workloads.

    Returns
    -------
    list of Job
        In order of arrival, the first at 0.

    Raises
    ------
    InputRefusedError
        If the file can't be read, a value is missing, negative or no number, or a job of it says too little; with the
        line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefusedError(
            "the trace can't be read as UTF-8 text", "Give a text file of jobs.", Where(path.name)
        ) from error
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    found: Iterator[Job] = iter(())
    if first.count("\t") >= _GAVEL_COLUMNS - 1:
        found = _gavel_lines(lines, path.name, steps_per_s or {})
    elif first:
        rows = csv.DictReader(lines, delimiter=max(",;\t", key=first.count))
        fields = [str(name).strip() for name in rows.fieldnames or ()]
        rows.fieldnames = fields
        if "num_gpu" in fields and "creation_time" in fields:
            found = _openb_rows(rows, path.name, workloads, Random(seed))  # noqa: S311 - a trace, not a secret
        else:
            found = _own_rows(rows, fields, path.name)
    jobs = sorted(found, key=lambda job: job.arrival_s)
    if not jobs:
        raise InputRefusedError("the trace holds no job", "Give one job a line.", Where(path.name))
    start = jobs[0].arrival_s
    return [replace(job, number=number, arrival_s=job.arrival_s - start) for number, job in enumerate(jobs)]


def _gavel_lines(lines: Sequence[str], name: str, steps_per_s: Mapping[str, float]) -> Iterator[Job]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != _GAVEL_COLUMNS:
            raise InputRefusedError(
                f"the line has {len(cells)} columns, and Gavel's trace has {_GAVEL_COLUMNS}",
                "Separate job type, command, directory, steps argument, data, total steps, scale factor, priority, SLO "
                "and arrival time by tabs.",
                Where(name, number),
            )
        workload = cells[0].strip()
        if workload not in steps_per_s:
            raise InputRefusedError(
                f"no throughput in steps a second is known for {workload!r}, so its steps are no length",
                "Choose a data set that measured it alone, or give an own CSV with length_s.", Where(name, number),
            )  # fmt: skip
        steps = _number(cells[5], "total steps", name, number, above=True)
        gpus = int(_number(cells[6], "scale factor", name, number, least=1))
        arrival = _number(cells[9], "arrival time", name, number)
        yield Job(number, workload, arrival, steps / steps_per_s[workload], gpus)


def _openb_rows(rows: csv.DictReader[str], name: str, workloads: Sequence[str], rng: Random) -> Iterator[Job]:
    if not workloads:
        raise InputRefusedError(
            "an openb table names no workloads, and there are none to draw from", "Load co-runs first.", Where(name)
        )
    for row in rows:
        line = rows.line_num
        gpus = int(_number(row.get("num_gpu"), "num_gpu", name, line))
        end = row.get("deletion_time") or ""
        if not gpus or not end.strip():
            continue  # a job of CPUs, or one that had not ended when the table was written
        arrival = _number(row.get("creation_time"), "creation_time", name, line)
        begun = row.get("scheduled_time") or row.get("creation_time")
        length = _number(end, "deletion_time", name, line) - _number(begun, "scheduled_time", name, line)
        if length < 0:
            raise InputRefusedError(
                f"the job ends {-length:g} s before it begins", "Correct its times or leave it out.", Where(name, line)
            )
        if length > 0:
            yield Job(line, rng.choice(list(workloads)), arrival, length, gpus)


def _own_rows(rows: csv.DictReader[str], fields: Sequence[str], name: str) -> Iterator[Job]:
    at = {what: next((word for word in words if word in fields), None) for what, words in _OWN.items()}
    missing = [what for what in ("workload", "length") if at[what] is None]
    if missing or (at["arrival"] is None and at["gap"] is None):
        raise InputRefusedError(
            f"the trace has no column for {' and '.join(missing or ['when jobs come'])}",
            "Give the columns workload, arrival_s (or gap_s), length_s and, if jobs need several, gpus.",
            Where(name, 1),
        )
    now = 0.0
    for row in rows:
        line = rows.line_num
        value = {what: row.get(column) if column else None for what, column in at.items()}
        workload = (value["workload"] or "").strip()
        if not workload:
            raise InputRefusedError("the job names no workload", "Name it.", Where(name, line, at["workload"]))
        if at["arrival"] is not None:
            now = _number(value["arrival"], at["arrival"], name, line)
        else:
            now += _number(value["gap"], str(at["gap"]), name, line)
        length = _number(value["length"], str(at["length"]), name, line, above=True)
        gpus = int(_number(value["gpus"], str(at["gpus"]), name, line, least=1)) if at["gpus"] else 1
        yield Job(line, workload, now, length, gpus)


def _number(text: str | None, what: str, name: str, line: int, *, least: float = 0.0, above: bool = False) -> float:
    try:
        value = float(text or "")
    except ValueError:
        said = "is missing" if not (text or "").strip() else f"is no number: {str(text).strip()[:40]!r}"
        raise InputRefusedError(f"{what} {said}", "Write it in seconds.", Where(name, line)) from None
    if not math.isfinite(value) or value < least or (above and value <= 0):
        bound = "above 0" if above else f"{least:g} or more"
        raise InputRefusedError(
            f"{what} is {value:g}", f"Times, gaps and counts are {bound}; correct it or leave the job out.",
            Where(name, line),
        )  # fmt: skip
    return value


def _positive(value: float, what: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{value:g} {what} make no sense", "Give a number above 0.")
