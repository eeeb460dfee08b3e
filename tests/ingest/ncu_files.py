"""Writes small files in the forms of Nsight Compute, with the oddities that real ones have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

IDENTITY_12 = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream"]
IDENTITY_15 = [
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
]  # fmt: skip
NVTX = [
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
]
METRIC = ["Section Name", "Metric Name", "Metric Unit", "Metric Value"]
RULES_18 = ["Rule Name", "Rule Type", "Rule Description"]
RULES_20 = [*RULES_18, "Estimated Speedup Type", "Estimated Speedup"]

ERAS = {
    12: [*IDENTITY_12, *METRIC],
    15: [*IDENTITY_15, *METRIC],
    17: [*IDENTITY_15[:4], *NVTX, *IDENTITY_15[4:], *METRIC],
    18: [*IDENTITY_15, *METRIC, *RULES_18],
    20: [*IDENTITY_15, *METRIC, *RULES_20],
}

CELLS = {
    "Process ID": "4711", "Process Name": "python3.11", "Host Name": "127.0.0.1", "Kernel Time": "2019-Jun-17 18:40:09",
    "Context": "1", "Stream": "7", "Block Size": "(128, 1, 1)", "Grid Size": "(64, 2, 1)", "Device": "0", "CC": "8.0",
    NVTX[0]: '4711  "<default domain>:step:none:none:none:none:none:none" ', NVTX[1]: "",
    "Section Name": "Command line profiler metrics",
}  # fmt: skip

PREAMBLE = [
    "==PROF== Connected to process 4711 (/usr/bin/python3.11)",
    "epoch 0, loss 2.31",
    '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes',
    "==PROF== Disconnected from process 4711",
]


@dataclass(frozen=True)
class Row:
    """One row: a metric of a launch, or a rule."""

    launch: int
    metric: str = ""
    value: str = ""
    unit: str = ""
    kernel: str = "void gemm<float, 4>(const float *, int)"
    section: str = CELLS["Section Name"]
    rule: tuple[str, ...] = ()
    more: dict[str, str] = field(default_factory=dict)


def quoted(cells: Sequence[str], delimiter: str = ",") -> str:
    return delimiter.join('"' + cell.replace('"', '""') + '"' for cell in cells)


def line(header: Sequence[str], row: Row, delimiter: str = ",") -> str:
    own = {
        **CELLS,
        "ID": str(row.launch),
        "Kernel Name": row.kernel,
        "Section Name": row.section,
        "Metric Name": row.metric,
        "Metric Unit": row.unit,
        "Metric Value": row.value,
        **row.more,
    }
    names = [name for name in header if not name.startswith(("Rule", "Estimated"))]
    text = quoted([own.get(name, "") for name in names], delimiter)
    if len(names) == len(header):
        return text
    # Metric rows of a table with rules end in one empty cell; rows of rules have all.
    return text + (delimiter + quoted(row.rule, delimiter) if row.rule else delimiter)


def long_form(
    rows: Sequence[Row],
    *,
    era: int = 15,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    end: str = "\n",
    before_end: str = "\n",
    delimiter: str = ",",
) -> bytes:
    header = ERAS[era]
    text = "".join(words + before_end for words in before)
    text += quoted(header, delimiter) + end
    text += "".join(line(header, row, delimiter) + end for row in rows)
    return (text + "".join(words + before_end for words in after)).encode()


def stall(reason: str, suffix: str = "ratio") -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.{suffix}"


def per_warp(reason: str, suffix: str = "pct") -> str:
    return f"smsp__warp_issue_stalled_{reason}_per_warp_active.{suffix}"


TOTAL = "smsp__average_warps_active_per_issue_active.ratio"


def profile_rows(launches: int = 3) -> list[Row]:
    """A small sound profile: duration, four reasons and their total, one throughput."""
    rows = []
    for launch in range(launches):
        rows += [
            Row(launch, "gpu__time_duration.sum", f"{10 + launch}.25", "us"),
            Row(launch, stall("long_scoreboard"), "4.50", "inst"),
            Row(launch, stall("wait"), "2.25", "inst"),
            Row(launch, stall("selected"), "1.00", "inst"),
            Row(launch, stall("barrier"), "0.25", "inst"),
            Row(launch, TOTAL, "8.00", ""),
            Row(launch, "dram__bytes_read.sum", "25.17", "Mbyte"),
        ]
    return rows


def wide_form(columns: dict[str, tuple[str, Sequence[str]]], *, units: bool = True, end: str = "\n") -> bytes:
    """Columns: metric -> (unit, values)."""
    count = len(next(iter(columns.values()))[1])
    lines = [quoted([*IDENTITY_15, *columns])]
    if units:
        lines.append(quoted([""] * len(IDENTITY_15) + [unit for unit, _ in columns.values()]))
    for number in range(count):
        own = {**CELLS, "ID": str(number), "Kernel Name": f"kernel_{number % 2}(int)"}
        lines.append(quoted([own[name] for name in IDENTITY_15] + [values[number] for _, values in columns.values()]))
    return (end.join(lines) + end).encode()
