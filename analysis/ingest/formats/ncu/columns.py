"""Columns of Nsight Compute's tables, matched by name and never by place, in the spelling of every age."""

from __future__ import annotations

from analysis.ingest.contract.cells import Header

ID = "ID"
PROCESS = "Process ID"
KERNEL = "Kernel Name"
BLOCK = "Block Size"
GRID = "Grid Size"
DEVICE = "Device"
CC = "CC"
SECTION = "Section Name"
METRIC = "Metric Name"
UNIT = "Metric Unit"
VALUE = "Metric Value"
RULE = "Rule Name"
RULE_TYPE = "Rule Type"
RULE_TEXT = "Rule Description"
SPEEDUP = "Estimated Speedup"
INVOCATIONS = "Invocations"
MINIMUM, MAXIMUM, AVERAGE = "Minimum", "Maximum", "Average"

#: Columns that say which launch a row is of; all others of a wide table are metrics.
IDENTITY = frozenset(
    {
        ID, PROCESS, "Process Name", "Host Name", KERNEL, "Kernel Time", "Context", "Stream", BLOCK, GRID, DEVICE, CC,
        INVOCATIONS, SECTION,
        "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
        "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    }
)  # fmt: skip


def is_long(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the long form: one row a launch and metric."""
    return {KERNEL, METRIC, VALUE} <= set(names)


def is_summary(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the summary by kernel: one row a kernel and metric, over its launches."""
    return {KERNEL, METRIC, AVERAGE} <= set(names) and VALUE not in names


def is_wide(names: tuple[str, ...]) -> bool:
    """Say whether these are the columns of the raw page: one row a launch, one column a metric."""
    known = set(names)
    return {ID, KERNEL} <= known and METRIC not in known and len(known - IDENTITY) > 0


def is_identity(name: str) -> bool:
    """Say whether a column of a wide table identifies the launch, be it one of the ranges that NVTX adds."""
    return name in IDENTITY or "Push/Pop_Range" in name or "Start/Stop_Range" in name or name == ""


def era(header: Header) -> str:
    """Name the age of a table by its columns."""
    names = set(header.names)
    count = len([name for name in header.names if name])
    notes = []
    if "Kernel Time" in names:
        notes.append("2019 to 2022")
    if any("Push/Pop_Range" in name for name in names):
        notes.append("with NVTX ranges")
    if RULE in names:
        notes.append("with rules")
    return f"{count} columns" + (f", {', '.join(notes)}" if notes else "")
