"""Texts that profilers print beside those that can be read: what each is, and which command gives the right one."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence

_RAW = "`ncu --import REPORT.ncu-rep --csv --page raw --print-units base > profile.csv`"
_SUMMARY_TEXT = re.compile(r"^\s*Time ?\(%\)\s{2,}.*\bInstances\b.*\bName\s*$|^\s*Start \(ns\)\s{2,}.*\bName\s*$", re.M)
_LONGEST = 1 << 16

_SMI = (
    "Log it with `nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,memory.used,power.draw,clocks.sm "
    "--format=csv -l 1 > gpu.csv`."
)
_KERNELS = "Print the kernels with `nsys stats --report cuda_gpu_kern_sum --format csv PROFILE.nsys-rep > kernels.csv`."
_SACCT = (
    "Print it with `sacct --parsable2 --format=JobID,JobName,AllocTRES,TRESUsageInAve,TRESUsageInMax,End,NodeList,"
    "Elapsed,State -j JOB > jobs.txt`."
)
_PROM = (
    "Correct the query, or ask for a shorter range or a longer step, such as `curl -G SERVER/api/v1/query_range "
    "-d query=DCGM_FI_DEV_GPU_UTIL -d start=... -d end=... -d step=60 > answer.json`."
)

#: Texts by a line that only they hold: what each is, and the cure.
_TEXTS = (
    (
        re.compile(r"^\| NVIDIA-SMI \S+ .*Driver Version", re.M),
        "this is the table that `nvidia-smi` prints for people, one moment of each GPU", _SMI,
    ),
    (
        re.compile(r"^=+\s*NVSMI LOG\s*=+\s*$", re.M),
        "this is the list of all settings that `nvidia-smi -q` prints, one moment of each GPU", _SMI,
    ),
    (
        re.compile(r"<!DOCTYPE nvidia_smi_log|<nvidia_smi_log>"),
        "this is the XML of `nvidia-smi -q -x`, one moment of each GPU", _SMI,
    ),
    (re.compile(r"\AGPU \d+: .+ \(UUID: \S+\)"), "this is the list of GPUs that `nvidia-smi -L` prints", _SMI),
    (
        re.compile(r"^\s*JobID(?:Raw)?\s{2,}.*\n[- ]+$|^\s*JobID(?:Raw)?(?:\s{2,}\S+)+\s*$", re.M),
        "this is what `sacct` prints for people, with cut columns", _SACCT,
    ),
    (
        re.compile(r"^JobID(?:Raw)?\|(?!.*TRESUsage).*$", re.M),
        "these are accounts of Slurm jobs without the columns of what they used (TRESUsageInAve and its like)", _SACCT,
    ),
    (
        re.compile(r'^"?Device"?,"?Context"?,"?Stream"?,"?Kernel"?,"?Correlation_ID"?,', re.M),
        "these are nvprof's metrics launch by launch, as --print-gpu-trace prints them; those by kernel can be read",
        "Profile again without --print-gpu-trace: `nvprof --csv --metrics all --log-file profile.csv YOUR COMMAND`.",
    ),
    (
        re.compile(r"^==\d+== (?:NVPROF is profiling|Profiling result:|Metric result:|Event result:)", re.M),
        "this is the text that nvprof prints for people",
        "Profile again with `nvprof --csv --log-file profile.csv YOUR COMMAND`.",
    ),
)  # fmt: skip

#: Other reports of `nsys stats` by names of their columns: what each is of.
_REPORTS = (
    ({"Num Calls", "Name"}, "calls on the CPU, such as cuda_api_sum or osrt_sum"),
    ({"Start (ns)", "Duration (ns)", "Result", "Name"}, "calls on the CPU one by one (cuda_api_trace)"),
    ({"Start (ns)", "End (ns)", "Event"}, "calls on the CPU one by one (osrt_trace)"),
    ({"Range", "Style"}, "ranges that the program marked (nvtx_sum)"),
    ({"Range", "Instances"}, "ranges that the program marked (nvtx_sum)"),
    ({"Count", "Operation"}, "sizes of copies of memory (cuda_gpu_mem_size_sum)"),
    ({"API Start (ns)", "Kernel Start (ns)"}, "launches with their calls (cuda_kern_exec_trace)"),
    ({"Count", "Kernel Name"}, "launches with their calls (cuda_kern_exec_sum)"),
)

_TIMES = ("time", "timestamp", "date")
_MOMENT = re.compile(r"^\d{4}[-/]\d{2}[-/]\d{2}[ T]\d{2}:\d{2}|^\d{10,13}$")
_CELL = re.compile(r"^(?:[+-]?\d[\d.,eE+-]*\s*(?:%|[A-Za-zµ°/]{1,8})?|null|undefined|NaN|)$")
_NUMBER = re.compile(r"^[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?$")


def near_miss(head: str) -> tuple[str, str] | None:
    """Recognise a text that is close to one that can be read.

    Parameters
    ----------
    head : str
        The first part of the text.

    Returns
    -------
    tuple of str or None
        What it is and the cure.
    """
    for form, what, cure in _TEXTS:
        if form.search(head):
            return what, cure
    failed = _failed_query(head)
    if failed is not None:
        return failed
    if _SUMMARY_TEXT.search(head):
        return (
            "this is the text that `nsys stats` prints for people",
            "Print it as a table with `nsys stats --report cuda_gpu_kern_sum --format csv PROFILE.nsys-rep`.",
        )
    lines = head.splitlines()[:50]
    found = _other_report(lines) or _legends(lines)
    if found is not None:
        return found
    for line in lines:
        if len(line) > _LONGEST or not ("Source" in line or "Average" in line):
            continue
        names = {name.strip() for name in next(csv.reader([line]), [])}
        if {"Address", "Source"} <= names and any("Sampling" in name or name.startswith("stall_") for name in names):
            return (
                "this is the source page of Nsight Compute: samples by instruction, without the launch they are of",
                f"Export the page of launches with {_RAW}, which has the stall reasons of each one.",
            )
        if {"Metric Name", "Average"} <= names and "Kernel Name" not in names:
            return (
                "this is a summary of Nsight Compute over all kernels at once",
                f"Print it with `--print-summary per-kernel`, or all launches with {_RAW}.",
            )
    return None


def _failed_query(head: str) -> tuple[str, str] | None:
    """Recognise an answer of Prometheus that says why there is none."""
    if not head.lstrip().startswith("{") or '"error"' not in head[:4096]:
        return None
    try:
        answer = json.loads(head)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("status") != "error":
        return None
    why = " ".join(str(answer.get("error") or answer.get("errorType") or "no reason given").split())[:200].rstrip(".")
    return f"this is an error that Prometheus answered: {why}", _PROM


def _other_report(lines: Sequence[str]) -> tuple[str, str] | None:
    """Recognise tables of Nsight Systems about other things than kernels."""
    for line in lines:
        if len(line) > _LONGEST or "(" not in line:
            continue
        for delimiter in (",", ";", "\t"):
            names = {name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])}
            if not any(re.match(r"(?:Time|Total|Start|API Start|Avg|PID)\b.*", name) for name in names):
                continue
            for wanted, what in _REPORTS:
                if wanted <= names:
                    return f"this is another table of `nsys stats`: {what}, without kernels", _KERNELS
    return None


def _legends(lines: Sequence[str]) -> tuple[str, str] | None:
    """Recognise Grafana's table of series that are called after the legend: which counter they are isn't said."""
    rows = list(csv.reader(line for line in lines if len(line) <= _LONGEST and line.strip() != "sep=,"))
    if len(rows) < 2 or len(rows[0]) < 2 or rows[0][0].strip().casefold() not in _TIMES:
        return None
    first = rows[1]
    if len(first) != len(rows[0]) or not _MOMENT.match(first[0].strip()):
        return None
    if not all(_CELL.match(cell.strip()) for cell in first[1:]):
        return None
    shown = ", ".join(name.strip()[:40] for name in rows[0][1:4])
    return (
        f"this is a table of times whose columns are called after the legend of a panel ({shown}), so which counter "
        "they are isn't said",
        "In Grafana set the legend of the query to `{{__name__}} {{gpu}} {{pod}}` or to Verbose and download the CSV "
        "again; or ask Prometheus itself with `curl -G SERVER/api/v1/query_range -d query=DCGM_FI_DEV_GPU_UTIL "
        "-d start=... -d end=... -d step=60 > answer.json`.",
    )


def lacks_names(cells: list[str]) -> bool:
    """Say whether the first line of a table holds values rather than the names of columns."""
    numbers = sum(bool(_NUMBER.match(cell.strip())) for cell in cells)
    return numbers >= 2 and numbers * 4 >= len(cells)
