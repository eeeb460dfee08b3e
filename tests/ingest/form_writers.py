"""One writer for each format: a random table in that form, and what reading it must give.

A writer takes a source of chance, so the same table of writers serves for properties and for damaged files. Rows that
must be rejected are mixed in where the form has them.
"""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from ncu_files import ERAS, IDENTITY_15, METRIC, PREAMBLE, Row, line, quoted, stall, wide_form

NAMES = (
    "saxpy(int, float, float*)", "void gemm<float, (int)4>(const T1 *, int)", 'ker"nel"()', "plain", "foo; bar",
    "void at::native::<unnamed>::max_pool<float>(T2)", "α_kernel(int)",
)  # fmt: skip
ENDS, ENCODINGS = ("\n", "\r\n"), ("utf-8", "utf-8-sig", "utf-16")


@dataclass(frozen=True)
class Written:
    """A file, and what must come of it.

    `values` are the numbers that must stand in `column` of `frame`, in any order; None where other tests hold them.
    """

    content: bytes
    rows: int
    rejected: int = 0
    frame: str = ""
    column: str = "value"
    values: Sequence[float] | None = None


Writer = Callable[[Random], Written]
WRITERS: dict[str, Writer] = {}


def writes(name: str) -> Callable[[Writer], Writer]:
    def keep(made: Writer) -> Writer:
        WRITERS[name] = made
        return made

    return keep


def number(rng: Random) -> float:
    return round(rng.uniform(0.01, 9999), rng.choice((0, 1, 3))) or 1.0


def numbers(rng: Random, most: int = 6) -> list[float]:
    return [number(rng) for _ in range(rng.randint(1, most))]


def some(rng: Random, most: int = 4) -> list[str]:
    return rng.sample(NAMES, rng.randint(1, most))


def text(rng: Random, lines: Sequence[str]) -> bytes:
    """Join lines with a random line end, encoding, and blank lines after them."""
    joined = [*lines, *[""] * rng.choice((0, 0, 1, 2))]
    return (rng.choice(ENDS).join(joined) + rng.choice(ENDS)).encode(rng.choice(ENCODINGS))


def rows_of(rng: Random, cells: Sequence[Sequence[object]], delimiter: str = ",") -> list[str]:
    """Write rows of cells, all quoted or only those that must be."""
    out = io.StringIO()
    quoting = rng.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    csv.writer(out, quoting=quoting, delimiter=delimiter, lineterminator="\n").writerows(cells)
    return out.getvalue().splitlines()


def table(rng: Random, cells: Sequence[Sequence[object]], delimiter: str = ",") -> bytes:
    return text(rng, rows_of(rng, cells, delimiter))


@writes("ncu-long")
def _(rng: Random) -> Written:
    header, values = ERAS[rng.choice(tuple(ERAS))], numbers(rng)
    rows = [Row(n, stall("wait"), repr(value), "inst", rng.choice(NAMES)) for n, value in enumerate(values)]
    body = [line(header, row) for row in rows]
    if len(values) > 1 and rng.random() < 0.5:
        body[-1] = body[-1].replace(repr(values[-1]), "1x2")
        values = values[:-1]
    before = rng.sample(PREAMBLE, rng.randint(0, 3))
    return Written(text(rng, [*before, quoted(header), *body]), len(rows), len(rows) - len(values), "kernel_metric",
                   values=values)  # fmt: skip


@writes("ncu-summary")
def _(rng: Random) -> Written:
    header = [name for name in IDENTITY_15 if name not in ("ID", "Context", "Stream")]
    names = [*header, "Invocations", *METRIC[:3], "Minimum", "Maximum", "Average"]
    kernels, values, body = some(rng), [], []
    for kernel in kernels:
        values.append(number(rng))
        own = {"Process ID": "7", "Process Name": "p", "Host Name": "h", "Kernel Name": kernel, "CC": "8.0",
               "Block Size": "(1, 1, 1)", "Grid Size": "(2, 1, 1)", "Device": "0", "Invocations": "3",
               "Section Name": "s", "Metric Name": "sm__cycles_active.avg", "Metric Unit": "cycle", "Minimum": "0.0",
               "Maximum": "99999.0", "Average": repr(values[-1])}  # fmt: skip
        body.append(quoted([own[name] for name in names]))
    return Written(text(rng, [quoted(names), *body]), len(body), 0, "kernel_metric", values=values)


@writes("ncu-raw")
def _(rng: Random) -> Written:
    values = numbers(rng)
    content = wide_form({"sm__cycles_active.avg": ("cycle", [repr(value) for value in values])}, end=rng.choice(ENDS))
    return Written(content, len(values), 0, "kernel_metric", values=values)


@writes("nvprof-metrics")
def _(rng: Random) -> Written:
    head = ("Device", "Kernel", "Invocations", "Metric Name", "Metric Description", "Min", "Max", "Avg")
    values = [(kernel, number(rng)) for kernel in some(rng)]
    cells = [("Tesla P100-SXM2-16GB (0)", kernel, 2, "ipc", "IPC, mean", 0, 9, repr(value)) for kernel, value in values]
    bad = rng.random() < 0.5
    cells += [("Tesla P100-SXM2-16GB (0)", "b", 2, "ipc", "IPC, mean", 0, 9, "x")] if bad else []
    before = ["==7== NVPROF is profiling process 7, command: ./a"] * rng.randint(0, 2)
    return Written(text(rng, [*before, *rows_of(rng, [head, *cells])]), len(cells), int(bad), "kernel_metric",
                   values=[value for _, value in values])  # fmt: skip


@writes("nvprof-summary")
def _(rng: Random) -> Written:
    head = ['"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"', ",%,ms,,us,us,ms,"]
    values = [(kernel, number(rng)) for kernel in some(rng)]
    cells = [("GPU activities", 1, 2, 3, repr(value), 0.01, 99999, kernel) for kernel, value in values]
    lines = ["==5== Profiling result:", *head, *rows_of(rng, cells)]
    return Written(text(rng, lines), len(cells), 0, "kernel", "duration_ns", [value * 1e3 for _, value in values])


@writes("nsys-kern-sum")
def _(rng: Random) -> Written:
    unit, factor = rng.choice((("ns", 1), ("us", 1e3), ("ms", 1e6)))
    head = ("Time (%)", *(f"{name} ({unit})" for name in ("Total Time",)), "Instances",
            *(f"{name} ({unit})" for name in ("Avg", "Med", "Min", "Max", "StdDev")), "Name")  # fmt: skip
    values = [(kernel, number(rng)) for kernel in some(rng)]
    cells = [(1.0, repr(2 * value), 2, repr(value), 1, 1, 9, 0, kernel) for kernel, value in values]
    before = ["Generating SQLite file a.sqlite from a.nsys-rep"] * rng.randint(0, 2)
    lines = [*before, *rows_of(rng, [head, *cells])]
    return Written(text(rng, lines), len(cells), 0, "kernel", "duration_ns", [value * factor for _, value in values])


@writes("nsys-gpu-trace")
def _(rng: Random) -> Written:
    head = ("Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd",
            "StcSMem (MB)", "DymSMem (MB)", "Bytes (MB)", "Throughput (MB/s)", "SrcMemKd", "DstMemKd", "Device", "Ctx",
            "Strm", "Name")  # fmt: skip
    values = [rng.randint(1, 10**7) for _ in range(rng.randint(1, 5))]
    cells = [(n, value, n, 4, 2, 1, 128, 1, 1, 32, 0, 0, "", "", "", "", "Tesla T4 (0)", 1, 7, rng.choice(NAMES))
             for n, value in enumerate(values)]  # fmt: skip
    copies = [(9, 99, 9, *[""] * 9, 1.5, 3.0, "Pageable", "Device", "Tesla T4 (0)", 1, 7, "[CUDA memcpy HtoD]")]
    copies *= rng.randint(0, 2)
    return Written(table(rng, [head, *cells, *copies]), len(cells) + len(copies), 0, "kernel", "duration_ns", values)


@writes("nsys-sqlite")
def _(rng: Random) -> Written:
    values = [rng.randint(1, 10**7) for _ in range(rng.randint(1, 5))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        with closing(sqlite3.connect(path)) as made:
            made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            made.executemany("INSERT INTO StringIds VALUES (?, ?)", list(enumerate(NAMES)))
            made.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ("start" INT, "end" INT, deviceId INT, '
                         "demangledName INT)")  # fmt: skip
            made.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, ?)",
                             [(100, 100 + value, rng.randrange(len(NAMES))) for value in values])  # fmt: skip
            made.commit()
        return Written(path.read_bytes(), len(values), 0, "kernel", "duration_ns", values)


@writes("kineto-trace")
def _(rng: Random) -> Written:
    values = [rng.randint(1, 10**6) for _ in range(rng.randint(1, 5))]
    events = [{"ph": "X", "cat": "kernel", "name": rng.choice(NAMES), "ts": n * 2e6 + 0.5, "dur": value,
               "args": {"device": 0, "grid": [1, 2, 3], "block": [4, 1, 1]}}
              for n, value in enumerate(values)]  # fmt: skip
    events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2}] * rng.randint(0, 2)
    whole = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Tesla T4"}], "traceEvents": events}
    content = json.dumps(whole, indent=rng.choice((None, 1))).encode()
    return Written(content, len(values), 0, "kernel", "duration_ns", [value * 1e3 for value in values])


@writes("nvidia-smi-log")
def _(rng: Random) -> Written:
    values = numbers(rng)
    cells = [f"2026/01/03 15:36:{n:02}.507, 0, Tesla T4, {value!r} W" for n, value in enumerate(values)]
    cells += ["2026/01/03 15:37:53.507, 0, Tesla T4, [N/A]"] * rng.randint(0, 2)
    return Written(text(rng, ["timestamp, index, name, power.draw [W]", *cells]), len(cells), 0, "telemetry",
                   values=values)  # fmt: skip


@writes("nvidia-smi-monitor")
def _(rng: Random) -> Written:
    head, values = ["# gpu    pwr  gtemp", "# Idx      W      C"], numbers(rng)
    body = [f"    {n % 2}  {value!r}      -" for n, value in enumerate(values)]
    bad = rng.random() < 0.5
    cells = [*body, *head * rng.randint(0, 1), *(["    0      x      1"] if bad else [])]
    return Written(text(rng, [*head, *cells]), len(body) + bad, int(bad), "telemetry", values=values)


@writes("dcgmi-dmon")
def _(rng: Random) -> Written:
    head, values = ["#Entity   SMACT  ", "ID       "], numbers(rng)
    body = [f"GPU {n % 2}     {value!r}" for n, value in enumerate(values)]
    return Written(text(rng, [*head, *body, *head, "GPU 0     N/A"]), len(body) + 1, 0, "telemetry", values=values)


@writes("dcgmi-stats")
def _(rng: Random) -> Written:
    values = [number(rng), number(rng)]
    lines = ["Successfully retrieved statistics for job: demo.", "+-----+-----+", "| GPU ID: 0            |",
             "|-----  Execution Stats  -----+----------|", f"| Energy Consumed (Joules) | {values[0]!r} |",
             f"| SM Clock (MHz) | Avg: {values[1]!r} |"]  # fmt: skip
    return Written(text(rng, lines), 2, 0, "telemetry", values=values)


@writes("dcgm-exporter")
def _(rng: Random) -> Written:
    values = numbers(rng)
    body = [f'DCGM_FI_PROF_SM_ACTIVE{{gpu="{n}",UUID="GPU-{n}",pod="a,b"}} {value!r}' for n, value in enumerate(values)]
    blank = ['DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-0",pod=""} 9223372036854775794'] * rng.randint(0, 2)
    bad = ['DCGM_FI_PROF_SM_ACTIVE{gpu="9",UUID="GPU-9",pod=""} what'] * rng.randint(0, 2)
    lines = ["# TYPE DCGM_FI_PROF_SM_ACTIVE gauge", *body, *blank, *bad]
    return Written(text(rng, lines), len(lines) - 1, len(bad), "telemetry", values=values)


@writes("prometheus-json")
def _(rng: Random) -> Written:
    values = numbers(rng)
    points = [[100 + n, repr(value)] for n, value in enumerate(values)]
    bad = [[1, "bad"]] * rng.randint(0, 2)
    series = [{"metric": {"__name__": "DCGM_FI_PROF_SM_ACTIVE", "gpu": "0"}, "values": [*points, *bad]}]
    whole = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    content = json.dumps(whole, indent=rng.choice((None, 1))).encode()
    return Written(content, len(points) + len(bad), len(bad), "telemetry", values=values)


@writes("grafana-csv")
def _(rng: Random) -> Written:
    values = numbers(rng)
    head = ("Time", 'DCGM_FI_PROF_SM_ACTIVE{gpu="0", pod="p"}')
    cells = [(f"2026-01-03 15:36:{n:02}", repr(value)) for n, value in enumerate(values)]
    first = ["sep=,"] * rng.randint(0, 1)
    return Written(text(rng, [*first, *rows_of(rng, [head, *cells])]), len(cells), 0, "telemetry", values=values)


@writes("slurm-sacct")
def _(rng: Random) -> Written:
    values = numbers(rng)
    head = "JobID|JobName|AllocTRES|End|TRESUsageInAve|"
    body = [f"{n}|bert|gres/gpu:a100=1|2026-01-03T15:36:53|gres/gpuutil={value!r}|" for n, value in enumerate(values)]
    idle = ["99|x|cpu=4|2026-01-03T15:36:53||"] * rng.randint(0, 2)
    given = [1.0] * len(body) + [4.0] * len(idle)
    return Written(text(rng, [head, *body, *idle]), len(body) + len(idle), 0, "telemetry", values=[*values, *given])


@writes("tracker-metrics")
def _(rng: Random) -> Written:
    values = numbers(rng)
    if rng.randint(0, 1):
        cells = [(n, f"2026-01-03 15:36:{n:02}", repr(value)) for n, value in enumerate(values)]
        head = ("Step", "timestamp", "system.gpu.0.powerWatts")
        return Written(table(rng, [head, *cells]), len(cells), 0, "telemetry", values=values)
    rows = [
        ("system/gpu_0_power_usage_watts", repr(value), f"2026-01-03 15:36:{n:02}") for n, value in enumerate(values)
    ]
    other = [("loss", 0.5, "2026-01-03 15:36:59")] * rng.randint(0, 2)
    return Written(table(rng, [("key", "value", "timestamp"), *rows, *other]), len(rows) + len(other), 0, "telemetry",
                   values=values)  # fmt: skip


@writes("rocprof")
def _(rng: Random) -> Written:
    values = [rng.randint(1, 10**7) for _ in range(rng.randint(1, 5))]
    names = [rng.choice(NAMES) for _ in values]
    if rng.randint(0, 1):
        head = rng.choice((("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"),
                           ("Kernel_Name", "Count", "Sum(ns)", "Mean(ns)", "Pct")))  # fmt: skip
        cells = [(f"{name} [clone .kd]", 2, 2 * value, value, 1.0) for name, value in zip(names, values, strict=True)]
        return Written(table(rng, [head, *cells]), len(cells), 0, "kernel", "duration_ns", values)
    if rng.randint(0, 1):
        head = ("Index", "KernelName", "gpu-id", "grd", "wgr", "BeginNs", "EndNs")
        rows = [
            (n, name, 0, 512, 64, 100, 100 + value) for n, (name, value) in enumerate(zip(names, values, strict=True))
        ]
        return Written(table(rng, [head, *rows]), len(rows), 0, "kernel", "duration_ns", values)
    head = ("Kind", "Kernel_Name", "Start_Timestamp", "End_Timestamp")
    traced = [("KERNEL_DISPATCH", name, 100, 100 + value) for name, value in zip(names, values, strict=True)]
    return Written(table(rng, [head, *traced]), len(traced), 0, "kernel", "duration_ns", values)


@writes("rocprof-trace")
def _(rng: Random) -> Written:
    values = [rng.randint(1, 10**7) for _ in range(rng.randint(1, 5))]
    events: list[dict[str, object]] = [
        {"ph": "X", "name": rng.choice(NAMES), "pid": 6, "ts": "1", "dur": str(value / 1e3),
         "args": {"BeginNs": "100", "EndNs": str(100 + value), "DurationNs": str(value)}}
        for value in values
    ]  # fmt: skip
    events = [{}, *events, *[{"ph": "M", "name": "process_name", "args": {"name": "GPU0"}}] * rng.randint(0, 2)]
    content = json.dumps({"traceEvents": events}, indent=rng.choice((None, 1))).encode()
    return Written(content, len(values), 0, "kernel", "duration_ns", values)


def _pairs(rng: Random, head: str, cells: Sequence[Sequence[object]], values: Sequence[float], column: str,
           frame: str = "member") -> Written:  # fmt: skip
    return Written(table(rng, [head.split("|"), *cells]), len(cells), 0, frame, column, values)


@writes("kace-pairs")
def _(rng: Random) -> Written:
    shared = [(number(rng), number(rng)) for _ in range(rng.randint(1, 4))]
    head = "workload1|workload2|w1throughput|w2throughput|w1exclusive_throughput|w2exclusive_throughput"
    cells = [("a_batch1-inf", f"b{n}_batch1-inf", a, b, 10, 20) for n, (a, b) in enumerate(shared)]
    return _pairs(rng, head, cells, [value for pair in shared for value in pair], "corun_value")


@writes("kace-triples")
def _(rng: Random) -> Written:
    shared = [tuple(number(rng) for _ in range(3)) for _ in range(rng.randint(1, 4))]
    head = "workload1|workload2|workload3|(w1_100, w2_100, w3_100)"
    cells = [("a", "b", f"c{n}", f"({a}, {b}, {c})") for n, (a, b, c) in enumerate(shared)]
    return _pairs(rng, head, cells, [value for triple in shared for value in triple], "corun_value")


@writes("kace-kernel-lengths")
def _(rng: Random) -> Written:
    cells = [(10, number(rng), 0.5, f"w{n}_batch1-inf") for n in range(rng.randint(1, 4))]
    head = "Threads|ave_Kernel_Length|long/short_Ratio|Type"
    return Written(table(rng, [head.split("|"), *cells]), len(cells), 0, "feature", "value",
                   [value for cell in cells for value in cell[:3]])  # fmt: skip


def _gavel(rng: Random, key: Callable[[str], str]) -> Written:
    jobs = ["A", "B", "C"][: rng.randint(1, 3)]
    whole: dict[str, dict[str, object]] = {key(job): {"null": number(rng)} for job in jobs}
    values, cells = [], 0
    for place, job in enumerate(jobs):
        cells += 1
        for partner in jobs[place + 1 :]:
            pair = [number(rng), number(rng)]
            whole[key(job)][key(partner)], whole[key(partner)][key(job)] = pair, pair[::-1]
            values += pair
            cells += 2
    content = json.dumps({"p100": whole}, indent=rng.choice((None, 1))).encode()
    # Mirrored cells are one measurement: set aside, and counted.
    return Written(content, cells, 0, "member", "corun_value", values)


@writes("gavel-oracle")
def _(rng: Random) -> Written:
    return _gavel(rng, str)


@writes("gavel-sim")
def _(rng: Random) -> Written:
    return _gavel(rng, lambda job: f"('{job}', 1)")


@writes("lucid-pairs")
def _(rng: Random) -> Written:
    side = "model{0}|dataset{0}|gpu_num{0}|batchsize{0}|amp{0}|speed{0}"
    shared = [(rng.uniform(0.1, 1), rng.uniform(0.1, 1)) for _ in range(rng.randint(1, 4))]
    cells = [
        (n, "VGG", "CIFAR", 1, 32, 0, a, "ResNet", "CIFAR", 1, 64 + n, 1, b, 50) for n, (a, b) in enumerate(shared)
    ]
    head = f"|{side.format(1)}|{side.format(2)}|gmem"
    return _pairs(rng, head, cells, [value for pair in shared for value in pair], "corun_value")


@writes("lucid-solo")
def _(rng: Random) -> Written:
    values = numbers(rng, 4)
    cells = [("VGG", "CIFAR", 32 + n, 0, value, 44.0, 23.0, 3386) for n, value in enumerate(values)]
    return _pairs(rng, "model|dataset|batchsize|amp|speed|gpu_util|gmem_util|gmem", cells, values, "value", "solo")


@writes("tally-coruns")
def _(rng: Random) -> Written:
    head = "high_priority_job|best_effort_job|high_priority_mps_throughput|best_effort_mps_throughput"
    shared = [(number(rng), number(rng)) for _ in range(rng.randint(1, 4))]
    cells = [(f"x{n}_infer_1", "y_train_2", a, b) for n, (a, b) in enumerate(shared)]
    return _pairs(rng, head, cells, [value for pair in shared for value in pair], "corun_value")


@writes("tally-solo")
def _(rng: Random) -> Written:
    values = numbers(rng, 4)
    cells = [(f"x{n}", "training", 97, 50, "", value) for n, value in enumerate(values)]
    head = "exp_key|workload_type|mem|gpu_util|original_avg_latency|original_throughput"
    return Written(table(rng, [head.split("|"), *cells]), len(cells))


_OWN = ("run_id", "gpu", "mechanism", "workload", "solo_throughput", "corun_throughput")


def _own_rows(rng: Random) -> tuple[list[tuple[object, ...]], list[float]]:
    shared = [(number(rng), number(rng)) for _ in range(rng.randint(1, 4))]
    rows = [(n, "T4", "CUDA MPS", name, 10000.5, value) for n, pair in enumerate(shared)
            for name, value in zip("ab", pair, strict=True)]  # fmt: skip
    return rows, [value for pair in shared for value in pair]


@writes("own-coruns")
def _(rng: Random) -> Written:
    rows, values = _own_rows(rng)
    return Written(table(rng, [_OWN, *rows], rng.choice(",;\t")), len(rows), 0, "member", "corun_value", values)


@writes("own-coruns as Parquet")
def _(rng: Random) -> Written:
    rows, values = _own_rows(rng)
    out = io.BytesIO()
    pq.write_table(pa.table({name: [row[place] for row in rows] for place, name in enumerate(_OWN)}), out)
    return Written(out.getvalue(), len(rows), 0, "member", "corun_value", values)


@writes("own-profiles")
def _(rng: Random) -> Written:
    head = ("workload", "gpu", "kernel", "duration_us", "dram__bytes_read.sum [byte]")
    cells = [("w", "T4", name, number(rng), 5) for name in some(rng)]
    values = [float(cell[3]) * 1e3 for cell in cells]
    return Written(table(rng, [head, *cells], rng.choice(",;")), len(cells), 0, "kernel", "duration_ns", values)


@writes("capture-provenance")
def capture_provenance(rng: Random) -> Written:
    runs = [
        {"run": f"r{number}", "workloads": ["a", "b"], "outcome": rng.choice(("ran", "did_not_run")), "notes": []}
        for number in range(rng.randint(1, 6))
    ]
    document = {
        "format": "stallscope-capture", "version": 1, "gpu": "H100-80GB-SXM",
        "provenance": {"driver": "570.1", "gpu": "H100-80GB-SXM"}, "runs": runs, "slowdowns": [],
    }  # fmt: skip
    return Written(json.dumps(document, indent=1).encode(), len(runs))
