"""The columns of StallScope's own tables: what each means, what it may hold, and how people spell it.

Reading, checking, templates and the guide are all made from this list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.reference.mechanism_names import MPS

Kind = Literal["text", "number", "integer"]


@dataclass(frozen=True)
class Column:
    """A column of an own table.

    Attributes
    ----------
    name : str
        As in the template.
    kind : {"text", "number", "integer"}
        What its cells hold.
    meaning : str
        For people, with the unit.
    example : str
        A cell of the template.
    above, least, most : float, optional
        Limits of a number: it must be larger than, not below, not above.
    choices : tuple of str
        The words that a text may be, after `words`.
    words : mapping
        Other spellings of the choices.
    """

    name: str
    kind: Kind
    meaning: str
    example: str = ""
    above: float | None = None
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    words: Mapping[str, str] | None = None


_WORKLOAD = (
    Column("workload", "text", "Name of the job configuration. Leave it out to have it made from the next columns."),
    Column("model", "text", "Model, for example `resnet50`.", "resnet50"),
    Column("family", "text", "Model without its settings; by default the model itself.", "ResNet"),
    Column("dataset", "text", "Data that the job trains on.", "ImageNet"),
    Column("batch_size", "integer", "Samples a step.", "64", least=1, most=1e8),
    Column("precision", "text", "`fp32`, `amp`, `bf16` ...", "amp"),
    Column("phase", "text", "`training` or `inference`; other words are kept.", "training"),
)
_GPU = Column("gpu", "text", "GPU as the driver names it, or a short name such as `A100-40GB`.", "A100-40GB")
_MEMORY = (
    Column("peak_memory_mib", "number", "Largest GPU memory of this job alone, in MiB.", "9410", above=0),
    Column(
        "memory_kind", "text", "Where that figure is from: `nvidia-smi`, `reserved` or `allocated` (PyTorch).",
        "nvidia-smi", choices=("nvidia-smi", "reserved", "allocated"),
        words={"nvidia_smi": "nvidia-smi", "smi": "nvidia-smi", "nvml": "nvidia-smi", "torch reserved": "reserved",
               "torch allocated": "allocated"},
    ),
)  # fmt: skip
_SOLO = (
    Column("solo_throughput", "number", "Throughput of the job alone.", "812.4", above=0),
    Column("solo_time", "number", "Time of the same work alone.", "", above=0),
)

#: One row for each job of each co-run.
CORUN_COLUMNS: tuple[Column, ...] = (
    Column("run_id", "text", "Which co-run the row belongs to: all rows of one co-run carry the same.", "run-1"),
    _GPU,
    Column("mechanism", "text", "How the jobs share the GPU: `CUDA MPS`, `time-slicing`, `MIG` ...", MPS),
    Column("slot", "integer", "Place of the job in the co-run, from 0; by default the order of rows.", "0",
           least=0, most=1e4),
    *_WORKLOAD,
    _SOLO[0],
    Column("corun_throughput", "number", "Throughput of the job during the co-run.", "561.0", above=0),
    _SOLO[1],
    Column("corun_time", "number", "Time of the same work during the co-run.", "", above=0),
    Column("slowdown", "number", "Co-run time / solo time; taken from the values before where they are given.", "",
           above=0),
    Column("unit", "text", "Unit of throughput or time, for example `samples/s` or `s`.", "samples/s"),
    Column("p99_solo_ms", "number", "99th percentile of latency alone, in ms.", "", above=0),
    Column("p99_corun_ms", "number", "99th percentile of latency during the co-run, in ms.", "", above=0),
    *_MEMORY,
    Column("thread_percentage", "number", "Active thread percentage of this MPS client, 1 to 100.", "100",
           least=1, most=100),
    Column("memory_cap_mib", "number", "Memory limit of this MPS client, in MiB.", "", above=0),
    Column("mig_profile", "text", "MIG profile of this job, for example `3g.20gb`.", ""),
    Column("priority", "text", "Priority of this job, in the mechanism's own words.", ""),
    Column(
        "outcome", "text", "`ran`, or `did_not_run` (out of memory, refused, crashed).", "ran",
        choices=("ran", "did_not_run"),
        words={"ok": "ran", "yes": "ran", "done": "ran", "success": "ran", "oom": "did_not_run",
               "failed": "did_not_run", "out of memory": "did_not_run", "did not run": "did_not_run",
               "crashed": "did_not_run"},
    ),
    Column("note", "text", "Remark on this job in this run, such as why it did not run; kept with the run."),
)  # fmt: skip

#: Columns by which a capture says what it was measured on; their values go to the file's report.
PROVENANCE = ("driver", "cuda", "ecc", "mig", "mps_clients", "sm_clock_mhz", "window_s", "started_at")

#: One row for each kernel of a workload alone, or one for the whole workload where ``kernel`` is blank.
PROFILE_COLUMNS: tuple[Column, ...] = (
    *_WORKLOAD,
    _GPU,
    Column("kernel", "text", "Name of the kernel; blank for figures of the whole workload.", "volta_sgemm_128x64_nn"),
    Column("grid", "text", "Grid size, for example `(256, 1, 1)`.", "(256, 1, 1)"),
    Column("block", "text", "Block size.", "(128, 1, 1)"),
    Column("invocations", "integer", "How often the kernel was launched; by default once.", "40", least=1, most=1e12),
    Column("duration_us", "number", "Mean duration of one launch, in microseconds.", "212.5", above=0),
    *_SOLO,
    Column("unit", "text", "Unit of throughput or time.", ""),
    *_MEMORY,
)

#: Spellings of column names that differ by more than case, blanks and punctuation.
_ALIASES: Mapping[str, str] = {
    "run": "run_id", "job": "workload", "workload_name": "workload", "model_name": "model", "gpu_name": "gpu",
    "training_data": "dataset", "batch": "batch_size", "batchsize": "batch_size", "bs": "batch_size",
    "sharing": "mechanism", "sharing_mechanism": "mechanism", "shared_throughput": "corun_throughput",
    "exclusive_throughput": "solo_throughput", "shared_time": "corun_time", "exclusive_time": "solo_time",
    "p99_corun": "p99_corun_ms", "p99_solo": "p99_solo_ms", "peak_memory": "peak_memory_mib",
    "memory_cap": "memory_cap_mib", "mps_thread_percentage": "thread_percentage", "kernel_name": "kernel",
    "grid_size": "grid", "block_size": "block", "duration": "duration_us",
}  # fmt: skip


def plain(name: str) -> str:
    """Return a column's name without case, blanks and punctuation: ``Peak memory [MiB]`` is ``peak_memory_mib``."""
    text = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_").replace("co_run", "corun")
    return _ALIASES.get(text, text)


def known(header: Sequence[str], columns: Sequence[Column]) -> dict[str, str]:
    """Map the names as written to the columns that they mean; others are left out."""
    names = {column.name for column in columns}
    return {written: plain(written) for written in header if plain(written) in names}


def is_corun(header: Sequence[str]) -> bool:
    """Say whether a header is that of a co-run table: a run and a measure of the co-run."""
    names = {plain(name) for name in header}
    return "run_id" in names and bool(names & {"slowdown", "corun_throughput", "corun_time", "outcome"})


def is_profile(header: Sequence[str]) -> bool:
    """Say whether a header is that of a profile table: a workload, something measured, and no run."""
    names = {plain(name) for name in header}
    measured = {"kernel", "duration_us", "solo_throughput", "solo_time", "peak_memory_mib"}
    metrics = any("__" in name or name.startswith("stall_") for name in names)
    return bool(names & {"workload", "model"}) and (bool(names & measured) or metrics) and "run_id" not in names
