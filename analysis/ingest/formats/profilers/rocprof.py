"""Tables and traces of AMD's rocprof and rocprofv3: kernels and their times; they hold no stall reasons."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.tool_profile import Account, build
from analysis.ingest.text.delimited import Sheet, header_of, read_sheet
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

#: What these tools say of the GPU: that it is AMD's.
GPU = "AMD GPU"
_STATISTICS = frozenset({"Name", "Calls", "TotalDurationNs", "AverageNs"})
_TRACE = frozenset({"Kernel_Name", "Start_Timestamp", "End_Timestamp"})
#: The launches that rocprof's first version lists in its results, by other names.
_FIRST = {"KernelName": "Kernel_Name", "BeginNs": "Start_Timestamp", "EndNs": "End_Timestamp"}
#: The table of top kernels of rocprofiler-compute, by other names.
_TOP = {"Kernel_Name": "Name", "Count": "Calls", "Sum(ns)": "TotalDurationNs", "Mean(ns)": "AverageNs"}
_NO_STALLS = "This tool has no stall reasons: AMD's counters are not NVIDIA's, and only times compare."
_COMMAND = "rocprofv3 --kernel-trace --output-format csv -- YOUR COMMAND"
_MOST_CALLS = 1e15
_SHOWN = 500


def _built(
    name: str, opened: Opened, hints: Hints, kernel: pd.DataFrame, account: Account, source: str, kind: str
) -> Parsed:
    if kernel.empty:
        first = account.rejected.iloc[0]["reason"] if len(account.rejected) else "there is none"
        raise InputRefusedError(
            f"none of its {account.read:,} kernels can be used, the first because it {first}",
            f"Record it again with `{_COMMAND}`.", Where(opened.name),
        )  # fmt: skip
    # The one GPU that the tool stands for; a user's word goes before it.
    parsed = build(
        name, opened, hints, kernel.assign(device=GPU), None, account,
        report={"duration_from": source}, warnings=[_NO_STALLS], era=kind, command=_COMMAND,
    )  # fmt: skip
    # What ncu would add is nothing that another recording of this tool has.
    told = tuple(text for text in parsed.warnings if not text.startswith("The file has no stall reasons"))
    return replace(parsed, warnings=told, report={**parsed.report, "missing_for_stalls": [], "command": None})


class RocprofTables:
    """Reads ``rocprof --stats``, traces and statistics of ``rocprofv3``, and top kernels of rocprofiler-compute."""

    name = "rocprof"
    title = "AMD rocprof, kernels and their times (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header is that of the statistics or of the kernel trace."""
        names = set(header_of(opened)[0])
        return any(names >= wanted for wanted in (_STATISTICS, _TRACE, set(_FIRST), set(_TOP)))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the kernels.

        Raises
        ------
        InputRefusedError
            If no row can be used.
        """
        sheet = read_sheet(opened)
        other = next((names for names in (_FIRST, _TOP) if set(sheet.header) >= set(names)), None)
        if other is not None:
            sheet.header = tuple(other.get(name, name) for name in sheet.header)
            sheet.cells = sheet.cells.rename(columns=other)
        if set(sheet.header) >= _TRACE:
            kernel, source, kind = _launches(sheet), "start and end of each launch", "kernel trace"
        else:
            kernel, source, kind = _statistics(sheet), "average of the statistics", "statistics"
        kernel = kernel[kernel["line"].isin(sheet.good().index)].reset_index(drop=True)
        return _built(
            self.name, opened, hints, kernel, Account(sheet.rows_read, sheet.rejected()), source, kind
        )  # fmt: skip


def _plain(name: str) -> str:
    return name.removesuffix("[clone .kd]").removesuffix(".kd").strip()


def _statistics(sheet: Sheet) -> pd.DataFrame:
    calls = sheet.numbers("Calls", least=1.0)
    total = sheet.numbers("TotalDurationNs", least=0.0)
    sheet.reject(calls.index[(calls != calls.round()) | (calls > _MOST_CALLS)], "Calls", "is no number of launches")
    names = sheet.cells["Name"].map(_plain)
    sheet.reject(names.index[names == ""], "Name", "is empty")
    return pd.DataFrame(
        {
            "name": names,
            "grid": None,
            "block": None,
            "invocations": calls.where(calls.between(1, _MOST_CALLS), 1).fillna(1).astype(np.int64),
            "duration_ns": (total / calls).where(total > 0),
            "line": sheet.cells.index,
        }
    )


def _launches(sheet: Sheet) -> pd.DataFrame:
    start, end = sheet.numbers("Start_Timestamp"), sheet.numbers("End_Timestamp")
    names = sheet.cells["Kernel_Name"].map(_plain)
    sheet.reject(names.index[names == ""], "Kernel_Name", "is empty")
    sheet.reject(end.index[end <= start], "End_Timestamp", "is not after its start")

    def size(what: str) -> list[str | None]:
        columns = [f"{what}_Size_{axis}" for axis in "XYZ"]
        if not set(columns) <= set(sheet.header):
            return [None] * len(sheet.cells)
        return [f"({x}, {y}, {z})" for x, y, z in sheet.cells[columns].itertuples(index=False, name=None)]

    return pd.DataFrame(
        {
            "name": names,
            "grid": size("Grid"),
            "block": size("Workgroup"),
            "invocations": 1,
            "duration_ns": end - start,
            "line": sheet.cells.index,
        }
    )


class RocprofTrace:
    """Reads rocprof's trace in the Chrome form, in which kernels carry BeginNs and EndNs."""

    name = "rocprof-trace"
    title = "AMD rocprof, trace (JSON)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether this is a list of trace events with rocprof's own times."""
        head = opened.head[: 1 << 16]
        return '"traceEvents"' in head and '"BeginNs"' in head and '"DurationNs"' in head

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the events that lasted.

        Raises
        ------
        InputRefusedError
            If the trace is cut off, or no kernel is in it.
        """
        try:
            document = json.loads((opened.text or opened.path).read_text(encoding="utf-8-sig"))
            events = [event for event in document["traceEvents"] if isinstance(event, dict) and event.get("ph") == "X"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputRefusedError(
                "the trace of rocprof is cut off or no JSON", "Record it again with `rocprof --hip-trace`.",
                Where(opened.name),
            ) from error  # fmt: skip
        rows: list[dict[str, Any]] = []
        faults: list[tuple[int, str | None, str, str]] = []
        kernels = [event for event in events if _is_kernel(event)]
        for number, event in enumerate(kernels, start=1):
            nanoseconds = _duration(event)
            if nanoseconds is None:
                faults.append((number, "DurationNs", "has no duration", str(event)[:_SHOWN]))
                continue
            rows.append({"name": _plain(str(event["name"])), "grid": None, "block": None, "invocations": 1,
                         "duration_ns": nanoseconds, "line": number})  # fmt: skip
        account = Account(
            len(kernels), pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)), faulty=len(faults)
        )  # fmt: skip
        return _built(self.name, opened, hints, pd.DataFrame(rows), account, "DurationNs of each kernel", "trace")


def _is_kernel(event: dict[str, Any]) -> bool:
    args = event.get("args")
    return isinstance(args, dict) and "BeginNs" in args and bool(str(event.get("name", "")).strip())


def _duration(event: dict[str, Any]) -> float | None:
    args = event["args"]
    try:
        value = float(args["EndNs"]) - float(args["BeginNs"])
    except (KeyError, TypeError, ValueError):
        return None
    return value if 0 < value < 1e18 else None
