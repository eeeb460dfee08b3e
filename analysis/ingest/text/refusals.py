"""Why a file is refused: one sentence that says what it is, and the cure, for everything people upload by mistake."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import pyarrow as pa
from pyarrow import parquet

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Opened
from analysis.ingest.contract.magic import other_packing
from analysis.ingest.contract.textstats import TextStats
from analysis.ingest.text.delimited import header_line
from analysis.ingest.text.header import MAX_COLUMNS

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
_LOAD_TEST = (
    "Its latencies and rates are of a service, not of a GPU. To compare sharing, write what it measured alone and "
    "together into a table of co-runs (`job, partner, alone_ms, together_ms`, or requests a second), and record the "
    "GPU meanwhile with nvidia-smi or DCGM."
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
        re.compile(
            r'"(?:mean_ttft_ms|request_throughput|http_req_duration|time_to_first_token|ttft_ms|http_reqs)"\s*:'
            r'|^"?Type"?,"?Name"?,"?Request Count"?,|^"?Concurrency"?,"?Inferences/Second"?,'
            r"|^Requests/sec:\s|^\s*Latency Distribution|^Running \S+ test @ |^Summary:\n\s+Total:", re.M,
        ),
        "this is the summary of a load test", _LOAD_TEST,
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


#: Turns a report of Nsight Compute into what StallScope reads.
NCU_EXPORT = "ncu --import {} --csv --page raw --print-units base > profile.csv"
NSYS_EXPORT = "nsys stats --report cuda_gpu_kern_sum --format csv --output . {}"

_KNOWN = (
    "StallScope reads Nsight Compute CSV (`ncu --csv`), tables and SQLite of Nsight Systems, nvprof, PyTorch traces, "
    "logs of nvidia-smi and DCGM, its own profile and co-run tables, for which the Data page has templates, and the "
    "public data sets of its catalogue; any other table can be mapped by hand when it is uploaded."
)

_BINARY = (
    (b"SQLite format 3\x00", "an SQLite database", f"If Nsight Systems wrote it, use `{NSYS_EXPORT}`."),
    (b"PAR1", "a Parquet file without the columns of any table that is known here", _KNOWN),
    (b"%PDF", "a PDF document", "Load the file that the profiler wrote."),
    (b"\x89PNG", "a picture", "Load the file that the profiler wrote."),
    (b"\xff\xd8\xff", "a picture", "Load the file that the profiler wrote."),
    (b"\x7fELF", "a program", "Load the file that the profiler wrote about it."),
    (b"\x80\x05", "a Python pickle, which is never read because it can run code", "Save the table as CSV or Parquet."),
    (b"\x80\x04", "a Python pickle, which is never read because it can run code", "Save the table as CSV or Parquet."),
    (b"\x80\x03", "a Python pickle, which is never read because it can run code", "Save the table as CSV or Parquet."),
    (b"\xd0\xcf\x11\xe0", "an old Office file", "Save the sheet as CSV and load that."),
)  # fmt: skip

_TEXT_REPORT = re.compile(
    r"^\s*Section: \S|^\s*-{8,} -{4,} -{4,}\s*$|^\s*Metric Name\s{2,}Metric Unit\s{2,}", re.MULTILINE
)
#: Bytes that texts are printed with, and NUL.
_PRINTED = bytes([0, 9, 10, 13, *range(32, 127)])
_PROFILER_LINE = re.compile(r"^==(?:PROF|ERROR|WARNING|LOG)==.*$", re.MULTILINE)


def profiler_fault(lines: Iterable[str]) -> tuple[str, str] | None:
    """Recognise in the profiler's own lines that the run failed.

    Parameters
    ----------
    lines : iterable of str
        Lines of the output.

    Returns
    -------
    tuple of str or None
        What happened and the cure.
    """
    text = "\n".join(lines)
    if "ERR_NVGPUCTRPERM" in text:
        return (
            "the profiler had no permission to read the GPU's performance counters (ERR_NVGPUCTRPERM), so there is no "
            "profile in it",
            "Let an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run ncu with "
            "administrator rights (in a container with --cap-add=SYS_ADMIN), and profile again.",
        )
    if "No kernels were profiled" in text:
        return (
            "no kernels were profiled, so there is no profile in it",
            "Add `--target-processes all` when a launcher starts the program, and check `--kernel-name`, "
            "`--launch-skip` and `--launch-count`.",
        )
    error = re.search(r"^==ERROR==\s*(.+)$", text, re.MULTILINE)
    if error:
        return (
            f"the profiler reported an error and no profile: {error[1].strip()[:200].rstrip('.')}",
            "Solve what it reports, profile again, and load the new file.",
        )
    return None


def explain(opened: Opened) -> InputRefusedError:
    """Say why no format claims a file.

    Parameters
    ----------
    opened : Opened
        The file.

    Returns
    -------
    InputRefusedError
        To be raised.
    """
    where = Where(opened.name)
    what, cure = _binary(opened) or _text(opened)
    return InputRefusedError(what, cure, where)


def _binary(opened: Opened) -> tuple[str, str] | None:
    suffix = PurePosixPath(opened.name.lower()).suffix
    shown = PurePosixPath(opened.name.replace("\\", "/")).name
    if opened.magic.startswith(b"NVR\x00") or (suffix in (".ncu-rep", ".nsight-cuprof-report") and not opened.head):
        return (
            "this is a binary report of Nsight Compute, which only NVIDIA's own software can read",
            f"Export it with `{NCU_EXPORT.format(shown)}` and load that; or install NVIDIA's reader here, which has a "
            "proprietary licence, with `pip install ncu-report`.",
        )
    if suffix in (".nsys-rep", ".qdrep") and not opened.head:
        return (
            "this is a binary report of Nsight Systems",
            f"Export it with `{NSYS_EXPORT.format(shown)}` and load that.",
        )
    packed = other_packing(opened.magic)
    if packed is not None:
        return f"the file is packed with {packed}", "Unpack it, or pack it with gzip, zip or tar."
    cut = _cut_off(opened)
    if cut is not None:
        return cut
    for magic, what, cure in _BINARY:
        if opened.magic.startswith(magic):
            return f"this is {what}", cure.format(shown)
    if opened.encoding == "binary" and opened.stats is not None and _is_mostly_text(opened, opened.stats):
        return (
            f"{opened.stats.nuls - opened.stats.last_nuls:,} NUL bytes stand among its text, as in a log with a hole "
            "or in an archive of an unknown kind",
            "If it is one log, take them out with `tr -d '\\000' < FILE > clean.txt`, look at the lines around them, "
            "and load that.",
        )
    if opened.encoding == "binary":
        return "this is a binary file of an unknown kind", _KNOWN
    if opened.encoding == "unknown":
        return "the text is in an encoding that can't be told", "Save it as UTF-8 and load it again."
    return None


def _cut_off(opened: Opened) -> tuple[str, str] | None:
    """Recognise a database or a Parquet file that ends before its end."""
    size = opened.path.stat().st_size
    again = "Copy or download it again and load it then."
    if opened.magic.startswith(b"PAR1"):
        with opened.path.open("rb") as file:
            file.seek(max(0, size - 4))
            if file.read(4) != b"PAR1":
                return "this is a Parquet file that is cut off before its end", again
        try:
            parquet.read_schema(opened.path)
        except (pa.ArrowException, OSError, ValueError):
            return "this is a Parquet file that is damaged", again
    if opened.magic.startswith(b"SQLite format 3\x00") and len(opened.magic) >= 100:
        page = int.from_bytes(opened.magic[16:18], "big")
        pages = int.from_bytes(opened.magic[28:32], "big")
        # The number of pages counts where the database was last written by a version that keeps it.
        kept = opened.magic[24:28] == opened.magic[92:96]
        if kept and size < pages * (page if page != 1 else 1 << 16):
            return "this is an SQLite database that is cut off before its end", again
    return None


def _is_mostly_text(opened: Opened, stats: TextStats) -> bool:
    """Say whether a text stands around the NUL bytes, and not bytes of any kind."""
    inside = stats.nuls - stats.last_nuls
    if not inside or inside * 5 > stats.size:
        return False
    with opened.path.open("rb") as file:
        start = file.read(1 << 16)
    return len(start.translate(None, _PRINTED)) * 20 < len(start)


def _text(opened: Opened) -> tuple[str, str]:
    head = opened.head
    if not head.strip():
        return "the file holds nothing but blanks", "Export it again."
    near = near_miss(head)
    if near is not None:
        return near
    start = head.lstrip()[:400].lower()
    if start.startswith("version https://git-lfs"):
        return "this is a pointer of Git LFS, not the file itself", "Fetch the file with `git lfs pull` and load that."
    if start.startswith(("<!doctype html", "<html")):
        return "this is a web page, not the file behind it", "Download the raw file and load that."
    if _TEXT_REPORT.search(head):
        return (
            "this is a text report of Nsight Compute, not CSV",
            "Profile with `--csv` as well, or export the report with `"
            + NCU_EXPORT.format("REPORT.ncu-rep")
            + "`, and load that.",
        )
    lines = head.splitlines()
    fault = profiler_fault(lines)
    if fault is not None:
        return fault
    if _PROFILER_LINE.search(head):
        return (
            "this is what the profiler printed on the screen, without a table",
            "Profile with `--csv --log-file profile.csv` and load that file.",
        )
    if opened.stats is not None and opened.stats.long_line:
        return "a line is longer than a mebibyte, so this is no table that a tool exports", _KNOWN
    return _table(lines)


def _table(lines: list[str]) -> tuple[str, str]:
    first = lines[header_line(lines) or 0]
    if first.lstrip().startswith(("{", "[")):
        return "this is JSON of a kind that is not known here", _KNOWN
    best: list[str] = []
    for delimiter in (",", ";", "\t"):
        names = next(csv.reader([first], delimiter=delimiter), [])
        best = names if len(names) > len(best) else best
    if len(best) > MAX_COLUMNS:
        return f"the table has {len(best):,} columns", f"Keep those that are needed, at most {MAX_COLUMNS:,}."
    if len(best) < 2:
        return "this is text without a table that is known here", _KNOWN
    if lacks_names(best):
        return (
            "its first line holds values, so the names of the columns are missing",
            "Write a line with a name for each column on top of it; then it can be mapped by hand when it is uploaded.",
        )
    shown = ", ".join(name.strip()[:40] or "(no name)" for name in best[:6])
    more = f" and {len(best) - 6} more" if len(best) > 6 else ""
    return f"this is a table that no format claims, with the columns {shown}{more}", _KNOWN
