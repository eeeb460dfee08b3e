"""Writes the sample: profiles in Nsight Compute's own form, and co-runs and job figures in the own tables."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from analysis.ingest.contract.names import parse_workload
from analysis.ingest.contract.simulated import MARK, line
from analysis.ingest.formats.own.columns import CORUN_COLUMNS
from analysis.sharing.noise import Noise
from analysis.sharing.profile import Launch, launches
from analysis.sharing.sample_runs import Campaign, campaign
from analysis.sharing.simulate import CoRun, Simulator
from analysis.sharing.work import Workload
from analysis.sharing.workloads import sample_workloads

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
