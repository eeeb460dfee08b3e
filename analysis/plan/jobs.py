"""Lists of jobs to place: a table of one's own, accounts of Slurm, pods, runs of W&B or MLflow, the openb trace."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from analysis.errors import InputRefusedError, Where
from analysis.plan.problem import Job, pair, with_context

Source = Literal["table", "sacct", "pods", "openb", "runs"]

#: Where each kind of list could have known the memory of its jobs.
_MEMORY_TOLD = {
    "sacct": "Slurm records it with AccountingStorageTRES=gres/gpu and AutoDetect=nvml.",
    "pods": "DCGM's DCGM_FI_DEV_FB_USED by pod tells it.",
    "openb": "The table does not name it.",
    "runs": "W&B and MLflow record it where system metrics are on.",
    "table": "Name it in the column peak_memory_mib.",
}

#: Columns of a table of one's own, with other names they go by. Only the job, or its workload, must be there.
COLUMNS: dict[str, tuple[str, ...]] = {
    "job": ("name", "job_name"),
    "workload": ("model",),
    "owner": ("user", "namespace", "account"),
    "gpus": ("num_gpu", "gpu_count"),
    "peak_memory_mib": ("memory_mib", "peak_memory"),
    "memory_kind": (),
    "limit": (),
    "priority": (),
    "class": ("queue", "partition"),
    "mechanism": ("mechanisms",),
    "threads": ("thread_percentage",),
    "with": (),
    "not_with": ("apart_from",),
}

#: Most jobs of one list.
MOST_JOBS = 20_000

_MIB = {"": 1 / (1 << 20), "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
_TRES = re.compile(r"(?:^|,)gres/(?P<name>gpu|mps|shard)(?::(?P<kind>[^=,]+))?=(?P<count>\d+)")
_USAGE = re.compile(r"(?:^|,)gres/gpumem=(?P<value>[\d.]+)(?P<unit>[KMGT]?)")
#: System metrics of W&B and MLflow, of one GPU: memory, and the share of time with a kernel on it.
_RUN_MEMORY = re.compile(
    r"(?:system\.)?gpu\.(?P<process>process\.)?(?P<wandb>\d+)\.memoryAllocatedBytes"
    r"|(?:metrics\.)?(?:system/)?gpu_(?P<mlflow>\d+)_memory_usage_megabytes"
)
_RUN_BUSY = re.compile(
    r"(?:system\.)?gpu\.(?:process\.)?(\d+)\.gpu|(?:metrics\.)?(?:system/)?gpu_(\d+)_utilization_percentage"
)
_RUN_ID = ("run_id", "run id", "run", "run_uuid", "id", "name", "tags.mlflow.runname", "run_name", "run name")
_RUN_NAME = ("run_name", "run name", "tags.mlflow.runname", "name", "display_name", "run")
_RUN_USER = ("user", "tags.mlflow.user", "username", "user_id", "entity")
_POD_SUFFIX = re.compile(r"(-[0-9a-f]{8,10}-[0-9a-z]{5}|-[0-9]+|-[0-9a-z]{5})$")
_ENDED = {"Succeeded", "Failed"}

#: A pod's own word for what it runs.
WORKLOAD_LABEL = "stallscope.io/workload"


@dataclass(frozen=True)
class JobList:
    """What a list says.

    Attributes
    ----------
    jobs : tuple of Job
        Its jobs; their workload is what the list calls it and is not yet looked up.
    source : str
        ``table``, ``sacct``, ``pods``, ``runs`` or ``openb``.
    wanted, forbidden : frozenset of pairs of names
        Wishes of the list.
    notes : tuple of str
        What was left out, and what is not known, in words.
    """

    jobs: tuple[Job, ...]
    source: Source
    wanted: frozenset[frozenset[str]] = frozenset()
    forbidden: frozenset[frozenset[str]] = frozenset()
    notes: tuple[str, ...] = ()

    def unknown_memory(self, jobs: Sequence[Job]) -> tuple[str, ...]:
        """Say how many of its jobs, as far as the library tells their memory, have none that is known."""
        unknown = sum(math.isnan(job.memory_mib) for job in jobs)
        if not unknown:
            return ()
        said = f"The peak memory of {unknown} of {len(jobs)} jobs is unknown: they never share."
        return (f"{said} {_MEMORY_TOLD[self.source]}",)

    @property
    def strict(self) -> bool:
        """Whether a workload that the library does not know is a mistake; a scheduler's list knows no workloads."""
        return self.source == "table"


def read_jobs(path: Path) -> JobList:
    """Read a list of jobs; what it is follows from its content.

    Raises
    ------
    InputRefusedError
        If the file is missing, too large, of no known form, or a value can't be read; with line and column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputRefusedError(
            "the list of jobs can't be read as text",
            "Give a CSV, `sacct -P` output or `kubectl get pods -o json`.",
            Where(str(path)),
        ) from error
    return parse_jobs(text, path.name)


def parse_jobs(text: str, name: str = "jobs") -> JobList:
    r"""Read a list of jobs from its text.

    Parameters
    ----------
    text : str
        The whole list.
    name : str
        What it is called in messages.

    Examples
    --------
    >>> parse_jobs("job,workload,owner\nmine,bert,ada\n").jobs[0].owner
    'ada'
    """
    where = Where(name)
    head = text.lstrip("\ufeff \r\n\t")
    if not head:
        raise InputRefusedError("the list of jobs is empty", "Give at least one job.", where)
    if head.startswith(("{", "[")):
        found = _pods(head, where)
    else:
        header = head.splitlines()[0]
        if "|" in header and "jobid" in header.casefold():
            found = _sacct(head, where)
        elif {"num_gpu", "gpu_milli"} <= {cell.strip().casefold() for cell in header.split(",")}:
            found = _openb(head, where)
        elif _RUN_MEMORY.search(head) or _RUN_BUSY.search(head):
            found = _runs(head, where)
        else:
            found = _table(head, where)
    if len(found.jobs) > MOST_JOBS:
        raise InputRefusedError(
            f"the list has {len(found.jobs):,} jobs", f"Give at most {MOST_JOBS:,}: what waits or runs now.", where
        )
    if not found.jobs:
        told = f" ({found.notes[0]})" if found.notes else ""
        raise InputRefusedError(f"the list names no job that needs a GPU{told}", "Give at least one.", where)
    return found


def _table(text: str, where: Where) -> JobList:
    separator = max(",;\t", key=text.splitlines()[0].count)
    reader = csv.DictReader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    header = [str(cell).strip().casefold() for cell in reader.fieldnames or ()]
    names = {other: column for column, others in COLUMNS.items() for other in (column, *others)}
    columns = {cell: names[cell] for cell in header if cell in names}
    if not {"job", "workload"} & set(columns.values()):
        raise InputRefusedError(
            f"no column says what the jobs are called; it has {', '.join(header[:8])}",
            "Name one `job` (its own name) or `workload` (what it runs).",
            where,
        )
    jobs: list[Job] = []
    wishes: dict[str, list[tuple[str, str, Where]]] = {"with": [], "not_with": []}
    for record in reader:
        line = reader.line_num
        row = {columns[str(key).strip().casefold()]: (value or "").strip() for key, value in record.items()
               if isinstance(value, str) and str(key).strip().casefold() in columns}  # fmt: skip
        if not any(row.values()):
            continue
        at = Where(where.file, line)
        job = _job_of_row(row, at, len(jobs) + 1)
        jobs.append(job)
        for kind, found in wishes.items():
            found += [(job.name, other, at) for other in re.split(r"[;|]", row.get(kind, "")) if other.strip()]
    named = {job.name for job in jobs}
    for _, other, at in (*wishes["with"], *wishes["not_with"]):
        if other.strip() not in named:
            raise InputRefusedError(f"a wish names {other.strip()!r}, which is no job of the list", "Correct it.", at)
    wanted, forbidden = (
        frozenset(pair(name, other.strip()) for name, other, _ in wishes[kind]) for kind in ("with", "not_with")
    )
    return JobList(tuple(jobs), "table", wanted, forbidden)


def _job_of_row(row: Mapping[str, str], at: Where, number: int) -> Job:
    workload = row.get("workload") or row.get("job", "")
    name = row.get("job") or f"{workload}-{number}"
    peak = _number(row, "peak_memory_mib", at, least=0)
    limit, threads = (_number(row, column, at) for column in ("limit", "threads"))
    return Job(
        name, workload, row.get("owner", ""), _whole(row, "gpus", at, 1),
        math.nan if peak is None else with_context(peak, row.get("memory_kind", "nvidia-smi") or "nvidia-smi"),
        limit, _whole(row, "priority", at, 0),
        tuple(one.strip() for one in re.split(r"[;|]", row.get("mechanism", "")) if one.strip()), threads,
        row.get("class", ""),
    )  # fmt: skip


def _number(row: Mapping[str, str], column: str, at: Where, least: float = -math.inf) -> float | None:
    text = row.get(column, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < least:
        raise InputRefusedError(
            f"{text!r} is no number that can stand here",
            "Correct it, or leave it empty if it is not known.",
            Where(at.file, at.line, column),
        )
    return value


def _whole(row: Mapping[str, str], column: str, at: Where, default: int) -> int:
    value = _number(row, column, at)
    if value is not None and value != int(value):
        raise InputRefusedError(f"{value:g} is no whole number", "Correct it.", Where(at.file, at.line, column))
    return default if value is None else int(value)


def _sacct(text: str, where: Where) -> JobList:
    """Read `sacct -P`: one job a number before the point, its steps add what they used."""
    lines = text.splitlines()
    header = [cell.strip().casefold() for cell in lines[0].split("|")]
    needed = {"jobid", "jobname", "alloctres"}
    if not needed <= set(header):
        raise InputRefusedError(
            f"the columns {', '.join(sorted(needed - set(header)))} are missing",
            "Use `sacct -P --format=JobID,JobName,User,State,Elapsed,AllocTRES,TRESUsageInAve,TRESUsageInMax`.",
            where,
        )
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = line.split("|")
        if len(cells) != len(header):
            raise InputRefusedError(
                f"there are {len(cells)} cells where the header has {len(header)}",
                "Export it again with `sacct -P`; a job's name must not hold `|`.", Where(where.file, number),
            )  # fmt: skip
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        main, _, step = row["jobid"].partition(".")
        entry = found.setdefault(main, {"peaks": [], "gpus": 0, "name": row["jobname"], "user": "", "state": ""})
        if not step:
            entry.update(name=row["jobname"], user=row.get("user", ""), state=row.get("state", ""))
        devices = [(one["name"], int(one["count"])) for one in _TRES.finditer(row["alloctres"])]
        # A typed and an untyped entry of one job say the same GPUs.
        whole = max((count for gres, count in devices if gres == "gpu"), default=0)
        entry["gpus"] = max(entry["gpus"], whole, min(len(devices), 1))
        for column in ("tresusageinmax", "tresusageinave"):
            for used in _USAGE.finditer(row.get(column, "")):
                entry["peaks"].append(float(used["value"]) * _MIB[used["unit"]])
    jobs: list[Job] = []
    without = 0
    for main, entry in found.items():
        if not entry["gpus"]:
            without += 1
            continue
        peak = max(entry["peaks"], default=math.nan)
        jobs.append(Job(f"{entry['name']}-{main}", entry["name"], entry["user"], entry["gpus"], peak))
    notes = [f"{without} jobs without a GPU are left out."] if without else []
    return JobList(tuple(jobs), "sacct", notes=tuple(notes))


def _pods(text: str, where: Where) -> JobList:
    """Read `kubectl get pods -o json`."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputRefusedError(
            "it begins like JSON and can't be read as such", "Use `kubectl get pods -A -o json`.", where
        ) from error
    items = document.get("items") if isinstance(document, dict) else document
    if isinstance(document, dict) and document.get("kind") == "Pod":
        items = [document]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputRefusedError("it is JSON, but no list of pods", "Use `kubectl get pods -A -o json`.", where)
    jobs: list[Job] = []
    ended = without = 0
    for pod in items:
        if _at(pod, "status", "phase") in _ENDED:
            ended += 1
            continue
        job = _job_of_pod(pod)
        if job is None:
            without += 1
        else:
            jobs.append(job)
    # Pods of one name live in different namespaces.
    names = [job.name for job in jobs]
    jobs = [replace(job, name=f"{job.owner}/{job.name}") if names.count(job.name) > 1 else job for job in jobs]
    notes = [f"{ended} pods that ended are left out."] if ended else []
    notes += [f"{without} pods without a GPU are left out."] if without else []
    return JobList(tuple(jobs), "pods", notes=tuple(notes))


def _job_of_pod(item: Mapping[str, Any]) -> Job | None:
    metadata = _at(item, "metadata") or {}
    annotations, labels = _at(metadata, "annotations") or {}, _at(metadata, "labels") or {}
    gpus, memory = 0, math.nan
    threads: float | None = None
    for container in _at(item, "spec", "containers") or []:
        limits = {**(_at(container, "resources", "requests") or {}), **(_at(container, "resources", "limits") or {})}
        for resource, amount in limits.items():
            if re.fullmatch(r"nvidia\.com/(gpu|gpu\.shared|mig-.+)", resource):
                gpus += int(_float(amount) or 0)
            elif resource == "nvidia.com/gpumem":
                memory = _float(amount) or math.nan
            elif resource == "nvidia.com/gpucores":
                threads = _float(amount) or None
    for key, value in annotations.items():
        if key.startswith("nvidia.com/container.") and key.endswith(".gpu-memory.limit"):
            memory, gpus = _quantity(str(value)), max(gpus, 1)
        elif key in ("gpu-fraction", "gpu-memory"):
            gpus = max(gpus, 1)
            memory = (_float(value) or math.nan) if key == "gpu-memory" else memory
    if _at(item, "spec", "resourceClaims"):
        gpus = max(gpus, 1)
    if not gpus:
        return None
    name = str(metadata.get("name", "pod"))
    workload = str(annotations.get(WORKLOAD_LABEL) or labels.get(WORKLOAD_LABEL) or _POD_SUFFIX.sub("", name))
    if threads is not None and not 0 < threads <= 100:
        threads = None
    return Job(name, workload, str(metadata.get("namespace", "default")), gpus, memory, threads=threads)


def _at(item: Any, *keys: str) -> Any:
    for key in keys:
        item = item.get(key) if isinstance(item, Mapping) else None
    return item


def _float(value: Any) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _quantity(text: str) -> float:
    """Return a Kubernetes quantity of memory in MiB; NaN for what is none."""
    found = re.fullmatch(r"([\d.]+)(Ki|Mi|Gi|Ti|k|M|G|T)?", text.strip())
    if found is None:
        return math.nan
    scale = {"Ki": 1024.0, "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    return float(found[1]) * scale.get(found[2] or "", 1.0) / 1024**2


def _runs(text: str, where: Where) -> JobList:
    """Read system metrics of W&B or MLflow runs: a row a sample, or a row a sample and metric.

    A table with one row a run holds the last sample only, which is no peak: the memory of such a run stays unknown.
    """
    reader = csv.DictReader(io.StringIO(text))
    header = {str(cell).strip().casefold(): str(cell) for cell in reader.fieldnames or ()}
    long = {"key", "value"} <= set(header)
    at = next((header[name] for name in _RUN_ID if name in header), None)
    if at is None:
        raise InputRefusedError(
            "no column says which run a sample is of", "Add a column run with its name, and join the runs' files.",
            where,
        )  # fmt: skip
    name_at, user_at = (
        next((header[name] for name in names if name in header), None) for names in (_RUN_NAME, _RUN_USER)
    )
    runs: dict[str, dict[str, Any]] = {}
    for row in reader:
        run = str(row.get(at) or "").strip()
        if not run:
            continue
        entry = runs.setdefault(run, {"name": run, "user": "", "memory": {}, "busy": {}})
        entry["name"] = str(row.get(name_at or at) or "").strip() or entry["name"]
        entry["user"] = str(row.get(user_at or "") or "").strip() or entry["user"]
        pairs = [(row[header["key"]], row[header["value"]])] if long else row.items()
        for key, value in pairs:
            number = _float(value)
            if number is None or not key:
                continue
            if found := _RUN_MEMORY.fullmatch(str(key).strip()):
                gpu = (bool(found["process"]), found["wandb"] or found["mlflow"])
                scale = 1e6 / 2**20 if found["mlflow"] else 1 / 2**20
                entry["memory"].setdefault(gpu, []).append(number * scale)
            elif found := _RUN_BUSY.fullmatch(str(key).strip()):
                entry["busy"].setdefault(found[1] or found[2], []).append(number)
    jobs = [_job_of_run(run, entry) for run, entry in runs.items() if entry["memory"] or entry["busy"]]
    names = Counter(job.name for job in jobs)
    ids = [run for run, entry in runs.items() if entry["memory"] or entry["busy"]]
    jobs = [
        replace(job, name=f"{job.name}-{run}") if names[job.name] > 1 else job
        for job, run in zip(jobs, ids, strict=True)
    ]
    single = sum(max(map(len, entry["memory"].values()), default=0) == 1 for entry in runs.values())
    notes = [f"{len(runs) - len(jobs)} runs without a GPU are left out."] if len(runs) > len(jobs) else []
    if single:
        notes.append(
            f"Of {single} runs there is one sample only, the last: it is no peak. Export the metrics' history."
        )
    return JobList(tuple(jobs), "runs", notes=tuple(notes))


def _job_of_run(run: str, entry: Mapping[str, Any]) -> Job:
    """Return the job of a run: its own process's memory where that is known, on the GPUs that it kept busy."""
    memory = {gpu: values for (process, gpu), values in entry["memory"].items() if process}
    memory = memory or {gpu: values for (_, gpu), values in entry["memory"].items()}
    used = {gpu for gpu, values in entry["busy"].items() if max(values) > 0}
    gpus = max(len(set(memory) & used or used or set(memory)), 1)
    peaks = [max(values) for gpu, values in memory.items() if len(values) > 1 and (not used or gpu in used)]
    return Job(str(entry["name"]), str(entry["name"]), str(entry["user"]), gpus, max(peaks, default=math.nan))


def _openb(text: str, where: Where) -> JobList:
    """Read the Alibaba openb table: a pod a line, shares of a GPU in thousandths; it names no workload and no owner."""
    jobs: list[Job] = []
    without = 0
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), start=2):
        at = Where(where.file, number)
        cells = {str(key): str(value or "") for key, value in row.items()}
        gpus = _whole(cells, "num_gpu", at, 0)
        if gpus < 1:
            without += 1
            continue
        jobs.append(Job(cells.get("name", "") or f"pod-{number}", "", "", gpus))
    notes = [f"{without} pods without a GPU are left out."] if without else []
    notes.append("The table names neither workloads nor peak memory of the GPU: every pod gets GPUs of its own.")
    return JobList(tuple(jobs), "openb", notes=tuple(notes))


def known_workloads(found: JobList, library: Sequence[str], name: str = "the library") -> JobList:
    """Hold the workloads of a list against those of the library.

    Parameters
    ----------
    found : JobList
        As `read_jobs` gives it.
    library : sequence of str
        Names that the library knows.
    name : str
        What the library is called in messages.

    Raises
    ------
    NotFoundError
        If a table of one's own names a workload that is not there. In a scheduler's list such a job stays, without a
        workload.
    """
    from analysis.errors import NotFoundError

    known = {one.casefold(): one for one in library}
    stripped = Counter(_POD_SUFFIX.sub("", one.casefold()) for one in library)
    # A cluster's telemetry names the pod or the Slurm job, a list of jobs what controllers and users call them.
    loose = {_POD_SUFFIX.sub("", name): one for name, one in known.items() if stripped[_POD_SUFFIX.sub("", name)] == 1}
    jobs, unknown = [], []
    for job in found.jobs:
        own = job.name.casefold().rpartition("/")[2]
        names = [job.workload.casefold()] if found.strict else [own, job.workload.casefold(), own.rpartition("-")[2]]
        match = next((known[name] for name in names if name in known), "")
        if not match and not found.strict:
            match = loose.get(job.workload.casefold(), "")
        if not match and job.workload:
            unknown.append(job)
        jobs.append(replace(job, workload=match))
    if unknown and found.strict:
        first = unknown[0]
        near = [one for one in library if first.workload.casefold()[:4] in one.casefold()][:3] or list(library[:3])
        raise NotFoundError(
            f"{name} knows no workload {first.workload!r} (job {first.name!r})",
            f"Name one of it, such as {', '.join(near)}, or bring a profile with `stallscope import`."
            if near
            else "Load data first with `stallscope datasets load` or `stallscope import`.",
        )
    notes = list(found.notes)
    if unknown:
        notes.append(
            f"{len(unknown)} of {len(jobs)} jobs run what the library does not know, such as {unknown[0].workload!r}: "
            f"they get GPUs of their own. A label {WORKLOAD_LABEL} on a pod, or a profile, tells."
        )
    return replace(found, jobs=tuple(jobs), notes=tuple(notes))
