"""The simulated sample in the database: loaded on a first start, hidden beside measurements, gone once removed."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.names import parse_workload
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.contract.simulated import MARK, SAMPLE, line
from analysis.ingest.formats.own.columns import CORUN_COLUMNS
from analysis.settings import asset, get_settings
from analysis.sharing.mechanisms import (
    BlockPriority,
    CudaMps,
    CudaMpsPriority,
    Mechanism,
    Mig,
    StaticPartition,
    TimeSlicing,
)
from analysis.sharing.partitions import mig_profiles
from analysis.sharing.profile import Launch, Noise, launches
from analysis.sharing.simulate import CoRun, Simulator
from analysis.sharing.work import Workload
from analysis.sharing.workloads import sample_workloads
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import remove_source
from analysis.store.queries import settings, sources

Progress = Callable[[float, str], None]
State = Literal["shown", "hidden", "absent"]

_REMOVED, _SHOWN, _LOADING = "sample_removed", "sample_shown", "sample_loading"


def files() -> list[Path]:
    """Return the files of the sample that ship with StallScope."""
    return sorted(path for path in asset("data", "samples").iterdir() if path.name.endswith((".zip", ".csv.gz")))


def wanted(database: Database) -> bool:
    """Say whether a start should load the sample: nothing is loaded, nobody removed it, and it isn't switched off.

    A sample of which only a part is there, as the program was ended meanwhile, is wanted as a whole.
    """
    if get_settings().sample != "on" or settings.get(database, _REMOVED) == "yes":
        return False
    if settings.get(database, _LOADING) == "yes":
        return True
    return settings.get(database, _REMOVED) is None and sources.sources(database).empty


def load(database: Database, progress: Progress | None = None) -> list[ImportReport]:
    """Load the sample into the data set ``sample``; what is there already is left alone.

    Parameters
    ----------
    database : Database
        The open database.
    progress : callable, optional
        Told the share done and what is read.

    Returns
    -------
    list of ImportReport
        One a file.
    """
    settings.put(database, _LOADING, "yes")
    paths = files()
    whole = sum(path.stat().st_size for path in paths)
    reports: list[ImportReport] = []
    done = 0
    for path in paths:
        begun, share = done / whole, path.stat().st_size / whole

        def step(fraction: float, name: str, begun: float = begun, share: float = share) -> None:
            if progress is not None:
                progress(begun + fraction * share, f"simulated sample: {name}")

        try:
            step(0.0, path.name)
            reports.append(import_bundle(database, path, lambda _: Hints(dataset=SAMPLE), step))
        except BaseException:
            # A set is there as a whole or not at all: half of it would answer as if it were all.
            _take_out(database)
            settings.put(database, _LOADING, "")
            raise
        done += path.stat().st_size
    settings.put(database, _REMOVED, "")
    settings.put(database, _LOADING, "")
    return reports


def _take_out(database: Database) -> int:
    held = sources.sources(database, Filter(datasets=(SAMPLE,)))
    for source_id in held["source_id"]:
        remove_source(database, int(source_id))
    return len(held)


def remove(database: Database) -> int:
    """Take the sample out for good; no start brings it back. Return the number of sources."""
    count = _take_out(database)
    settings.put(database, _REMOVED, "yes")
    return count


def state(database: Database) -> State:
    """Say whether the sample is there, and whether it shows.

    It shows alone; the first measurement hides it until somebody asks for it.
    """
    held = sources.datasets(database)
    if SAMPLE not in set(held["name"]):
        return "absent"
    asked = settings.get(database, _SHOWN)
    measured = not held["simulated"].astype(bool).all()
    shown = asked == "yes" if asked in ("yes", "no") else not measured
    return "shown" if shown else "hidden"


def show(database: Database, shown: bool) -> None:
    """Show or hide the sample, until somebody changes it again."""
    settings.put(database, _SHOWN, "yes" if shown else "no")


TRIPLES, QUADRUPLES, OTHERS = 48, 24, 14
#: Draws for each set that is wanted.
_TRIES = 40


@dataclass(frozen=True)
class Planned:
    """A co-run of the sample and the part of the campaign that it belongs to."""

    stage: str
    run: CoRun


Campaign: TypeAlias = list[Planned]


def campaign(simulator: Simulator, seed: int) -> Campaign:
    """Run the sample's sets on one GPU.

    Parameters
    ----------
    simulator : Simulator
        Knows the GPU and the workloads; those that don't fit onto the GPU alone are left out.
    seed : int
        Of the choice.

    Returns
    -------
    list of Planned
        Pairs under CUDA MPS first.
    """
    random = np.random.default_rng([seed, *simulator.machine.name.encode()])
    names = [name for name in simulator.workloads if simulator.fits(name)]
    found: Campaign = []

    def run(stage: str, sets: Sequence[tuple[str, ...]], how: Mechanism) -> None:
        found.extend(Planned(stage, result) for result in simulator.co_run(sets, how))

    run("pair", [(a, b) for i, a in enumerate(names) for b in names[i:]], CudaMps())
    run("triple", choose(simulator, names, 3, TRIPLES, random), CudaMps())
    run("quadruple", choose(simulator, names, 4, QUADRUPLES, random), CudaMps())
    compared = compared_pairs(simulator, names, random)
    run("half", compared, CudaMps(percentages=(50, 50)))
    run("priority", compared, CudaMpsPriority())
    run("slices", compared, TimeSlicing())
    run("partition", compared, StaticPartition())
    run("blocks", compared, BlockPriority())
    if mig_profiles(simulator.machine):
        run("mig", compared, Mig())
    return found


def choose(
    simulator: Simulator, names: Sequence[str], size: int, count: int, random: np.random.Generator
) -> list[tuple[str, ...]]:
    """Choose sets of different workloads, most of them small enough for the memory."""
    memory = {job.name: job.memory_mib for job in simulator.jobs.workloads}
    chosen: list[tuple[str, ...]] = []
    for _ in range(_TRIES * count):
        picked = tuple(names[place] for place in sorted(random.choice(len(names), size, replace=False)))
        too_large = sum(memory[name] for name in picked) > simulator.machine.memory_mib
        # One in eight stays although it won't fit: that is a result too.
        if picked not in chosen and (not too_large or random.random() < 1 / 8):
            chosen.append(picked)
        if len(chosen) == count:
            break
    return chosen


def compared_pairs(simulator: Simulator, names: Sequence[str], random: np.random.Generator) -> list[tuple[str, str]]:
    """Choose pairs for every mechanism: each server beside training jobs, and training jobs beside each other."""
    memory = {job.name: job.memory_mib for job in simulator.jobs.workloads}
    serving = {job.name for job in simulator.jobs.workloads if job.service}
    servers = [name for name in names if name in serving]
    training = [name for name in names if name not in serving]
    pairs: list[tuple[str, str]] = []
    for server in servers:
        fitting = [t for t in training if memory[t] + memory[server] < simulator.machine.memory_mib * 0.95]
        for place in sorted(random.choice(len(fitting), min(2, len(fitting)), replace=False)):
            pairs.append((server, fitting[place]))
    while len(pairs) < OTHERS:
        a, b = (training[place] for place in sorted(random.choice(len(training), 2, replace=False)))
        if (a, b) not in pairs and memory[a] + memory[b] < simulator.machine.memory_mib * 0.95:
            pairs.append((a, b))
    return pairs


#: GPUs of the sample.
GPUS = ("V100-32GB", "A100-80GB", "H100-SXM", "RTX 4090")
SEED = 2026

_HEADER = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value",
)  # fmt: skip
#: Archives carry no clock, so that the same seed gives the same bytes.
_EPOCH = (2026, 1, 1, 0, 0, 0)


def write_sample(
    folder: Path,
    seed: int = SEED,
    gpus: Sequence[str] = GPUS,
    progress: Callable[[float, str], None] | None = None,
) -> list[Path]:
    """Write the whole sample; the same seed gives the same bytes.

    Parameters
    ----------
    folder : Path
        Where to write; made when missing. Files of the same names are replaced.
    seed : int
        Seed of the choice of sets and of the scatter.
    gpus : sequence of str
        GPUs to simulate.
    progress : callable, optional
        Told the share done and the GPU.

    Returns
    -------
    list of Path
        The files: profiles of each GPU (a zip of one CSV a workload), the co-runs, and figures of the jobs alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    noise = Noise(seed)
    files: dict[str, bytes] = {}
    runs: list[dict[str, str]] = []
    jobs: list[dict[str, str]] = []
    for gpu in gpus:
        simulator = Simulator(gpu, sample_workloads())
        name = simulator.machine.name.replace(" ", "-")
        files[f"profiles_{name}.zip"] = _archive(profile_files(simulator, noise))
        runs += corun_rows(simulator, campaign(simulator, seed), noise)
        jobs += job_rows(simulator)
        if progress is not None:
            progress(len(files) / len(gpus), simulator.machine.name)
    names = [column.name for column in CORUN_COLUMNS if any(row.get(column.name) for row in runs)]
    files["coruns.csv.gz"] = _packed(_csv(runs, [*names, "origin"]))
    files["jobs.csv.gz"] = _packed(_csv(jobs, list(jobs[0])))
    for file, data in files.items():
        (folder / file).write_bytes(data)
    return [folder / file for file in files]


def profile_files(simulator: Simulator, noise: Noise | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each workload's profile, workloads that fit onto the GPU only."""
    gpu = simulator.machine.name.replace(" ", "-")
    for workload in simulator.workloads:
        if simulator.fits(workload):
            yield f"{workload}_{gpu}.csv", profile_csv(simulator, workload, launches(simulator, workload, noise))


def profile_csv(simulator: Simulator, workload: str, found: Sequence[Launch]) -> str:
    """Return a profile as ``ncu --csv --print-units base --metrics ...`` prints it, with its lines before the table."""
    out = io.StringIO()
    out.write(line(workload, simulator.machine.name))
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(_HEADER)
    for number, launch in enumerate(found):
        kernel = launch.kernel
        block, grid = f"({kernel.threads}, 1, 1)", f"({kernel.grid}, 1, 1)"
        identity = [
            number, 4711, "python3.11", "simulator", kernel.name, 1, 7, block, grid, 0, simulator.machine.cc,
            "Command line profiler metrics",
        ]  # fmt: skip
        for name, unit, value in launch.metrics:
            writer.writerow([*identity, name, unit, _number(value)])
    return out.getvalue()


def corun_rows(simulator: Simulator, runs: Campaign, noise: Noise | None = None) -> list[dict[str, str]]:
    """Return the co-runs of a campaign as rows of the own co-run table."""
    return [
        row
        for number, run in enumerate(runs)
        for row in _members(simulator, f"{run.stage}-{number:04d}", run.run, noise)
    ]


def job_rows(simulator: Simulator) -> list[dict[str, str]]:
    """Return what a monitor would say of each job alone, as rows of the own profile table: duty cycle, launches."""
    rows = []
    for workload in simulator.jobs.workloads:
        if simulator.fits(workload.name):
            load = workload.service.load if workload.service else 1.0
            figures = {
                "gpu": simulator.machine.name,
                "kernel": "",
                "sm_util [%]": _number(100 * load * simulator.duty(workload.name)),
                "kernels_per_step": str(sum(count for _, count in workload.kernels)),
            }
            rows.append(_described(workload) | figures)
    return rows


def _members(simulator: Simulator, run_id: str, run: CoRun, noise: Noise | None) -> Iterator[dict[str, str]]:
    jobs = {workload.name: workload for workload in simulator.jobs.workloads}
    gpu = simulator.machine.name
    for slot, name in enumerate(run.workloads):
        job = jobs[name]
        solo = simulator.step_ms(name)
        baseline = noise.baseline(gpu, name) if noise else 1.0
        row = _described(job) | {
            "run_id": run_id,
            "gpu": gpu,
            "mechanism": run.mechanism,
            "slot": str(slot),
            "peak_memory_mib": f"{job.memory_mib:.0f}",
            "memory_kind": "nvidia-smi",
            "outcome": run.outcome,
            **_place(run, slot),
        }
        # A server's work is a request, a training job's a step a second.
        if job.service:
            row |= {"unit": "ms", "solo_time": _number(solo * baseline)}
            p99 = run.p99_solo_ms[slot] * baseline
        else:
            row |= {"unit": "step/s", "solo_throughput": _number(1e3 / (solo * baseline))}
        if run.outcome == "ran":
            slowed = solo * float(run.slowdown[slot]) * (noise.member(gpu, run_id, slot) if noise else 1.0)
            if job.service:
                tail = run.p99_ms[slot] * (noise.factor(2 * noise.run, "p99", gpu, run_id, slot) if noise else 1.0)
                row |= {"corun_time": _number(slowed), "p99_solo_ms": _number(p99)}
                row |= {"note": run.remark(slot)} if run.overloaded[slot] else {"p99_corun_ms": _number(tail)}
            else:
                row["corun_throughput"] = _number(1e3 / slowed)
        yield row


def _place(run: CoRun, slot: int) -> dict[str, str]:
    label = run.labels[slot]
    place: dict[str, str] = {}
    if len(set(run.priority)) > 1:
        place["priority"] = "high" if run.priority[slot] == max(run.priority) else "best effort"
    if label.endswith("%"):
        place["thread_percentage"] = label.removesuffix("%").strip()
    elif label:
        place["mig_profile"] = label
    return place


def _described(job: Workload) -> dict[str, str]:
    parts = parse_workload(job.name)
    return {
        "workload": job.name,
        "model": str(parts.model),
        "family": str(parts.family),
        "batch_size": str(parts.batch_size),
        "precision": str(parts.precision),
        "phase": job.phase,
        "origin": MARK,
    }


def _csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _number(value: float) -> str:
    """Write five digits: finer than any measurement, coarse enough to be the same on every machine."""
    return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def _archive(files: Iterator[tuple[str, str]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(entry, text, compresslevel=9)
    return out.getvalue()
