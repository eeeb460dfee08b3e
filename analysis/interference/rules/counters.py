"""Counters and telemetry that can't be right: above their peak, idle on a busy GPU, one series for several pods."""

from __future__ import annotations

from analysis.interference.finding import Finding, counted, named, place
from analysis.stalls.cautions import CLOCK_TOLERANCE
from analysis.stalls.counters import counters
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, repeats

#: Rounding and replay passes take a sound counter slightly above its peak.
ABOVE = 101.0

#: A GPU that is in use for this percentage of the time has active units.
BUSY = 50.0

_UTILISATION = r"(?i)^(?:utilization[._ ]gpu|gpu[._ ]?util|gputl|dcgm_fi_dev_gpu_util)"
_ACTIVITY = r"(?i)(?:gr_engine_active|sm_active|sm_occupancy|pipe_\w+_active|dram_active|gract|smact|smocc|tenso|drama)"


def above_peak(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report counters above 100 % of their peak."""
    found = repeats.above_percent(database, ABOVE, dataset)
    findings = []
    for (name, gpu), rows in found.groupby(["dataset", "gpu"], sort=True, dropna=False):
        sentence = (
            f"{counted(len(rows), 'value')} above 100 % of the peak, up to {rows['value'].max():.0f} %: "
            f"{named(rows['name'].unique(), 3)}. Replay passes that differ, or a peak at other clocks; take them as "
            "full."
        )
        table = rows.reset_index(drop=True)
        findings.append(Finding("above-peak", "warning", place(name, gpu), len(table), sentence, table))
    return findings


def idle_counters(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report activity counters that are zero throughout while the same device was in use."""
    table = repeats.telemetry_extremes(database, dataset)
    findings = []
    for (name, file, device), group in table.groupby(["dataset", "file_name", "device"], sort=True):
        busy = group[group["name"].str.contains(_UTILISATION) & (group["largest"] >= BUSY)]
        idle = group[group["name"].str.contains(_ACTIVITY) & (group["largest"] == 0)]
        if busy.empty or idle.empty:
            continue
        sentence = (
            f"{named(idle['name'], 3)} {'is' if len(idle) == 1 else 'are'} zero throughout while "
            f"{busy['name'].iloc[0]} reaches {busy['largest'].max():.0f} %: the profiling counters were "
            "not read. Absent, not zero."
        )
        rows = idle.reset_index(drop=True)
        findings.append(Finding("idle-counters", "error", place(name, file, device), len(rows), sentence, rows))
    return findings


def identical_series(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report series that are the same for several pods or processes: figures of the device, not of each of them."""
    found = repeats.identical_series(database, dataset)
    findings = []
    for (name, file, device), rows in found.groupby(["dataset", "file_name", "device"], sort=True):
        pods = sorted({str(entity) for entities in rows["entities"] for entity in entities})
        sentence = (
            f"{named(rows['name'], 3)} {'is' if len(rows) == 1 else 'are'} the same at every moment for "
            f"{counted(len(pods), 'client')} ({named(pods, 3)}): under sharing these are figures of the whole GPU, not "
            "of each client."
        )
        table = rows.reset_index(drop=True)
        findings.append(Finding("identical-series", "warning", place(name, file, device), len(table), sentence, table))
    return findings


def clocks_differ(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report profiles on one GPU model whose clocks differ by more than 2 %."""
    table = counters(database, Filter(datasets=(dataset,) if dataset else ()))
    findings = []
    for column, title in (("sm_clock", "SM"), ("dram_clock", "DRAM")):
        known = table[table[column] > 0]
        for (name, gpu), group in known.groupby(["dataset", "gpu"], sort=True):
            low, high = float(group[column].min()), float(group[column].max())
            apart = 100 * (high / low - 1)
            if apart <= CLOCK_TOLERANCE:
                continue
            sentence = (
                f"The {title} clocks of {counted(len(group), 'profile')} differ by up to {apart:.1f} % "
                f"({low / 1e6:.0f} to {high / 1e6:.0f} MHz): their times and cycles are not comparable as they stand."
            )
            rows = group[["dataset", "gpu", "workload", column]].sort_values(column).reset_index(drop=True)
            findings.append(Finding("clocks-differ", "warning", place(name, gpu), len(rows), sentence, rows))
    return findings


def caps(database: Database, dataset: str | None = None) -> list[Finding]:
    """Report GPUs where pairs ran without client caps while other runs had them: one does not stand for the other."""
    members = coruns.members(database, Filter(datasets=(dataset,) if dataset else ()))
    capped = (members["thread_percentage"].astype(float) < 100) | members["memory_cap_mib"].notna()
    members = members.assign(capped=capped.groupby(members["run_id"]).transform("any").astype(bool))
    findings = []
    for (name, gpu, mechanism), group in members.groupby(["dataset", "gpu", "mechanism"], sort=True):
        free = group[~group["capped"] & (group["k"] == 2)]["run_id"].nunique()
        limited = group[group["capped"]]
        if not free or limited.empty:
            continue
        sentence = (
            f"{counted(free, 'pair')} ran without client caps and {counted(limited['run_id'].nunique(), 'run')} with a "
            "thread percentage or a memory cap: the matrix stands for clients without caps only."
        )
        shown = [
            "dataset", "gpu", "mechanism", "run_id", "slot", "workload", "k", "thread_percentage", "memory_cap_mib",
            "file_name", "line",
        ]  # fmt: skip
        rows = limited[shown].reset_index(drop=True)
        findings.append(Finding("client-caps", "info", place(name, gpu, mechanism), len(rows), sentence, rows))
    return findings
