"""Logs of `nvidia-smi dmon` (devices) and `nvidia-smi pmon` (processes)."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry.monitor_tables import Monitored, cells_of, looks_like_row, sound, tables
from analysis.store.parsed import Parsed

#: What the columns of dmon are in the driver's own words.
_COUNTER = {
    "sm": "utilization.gpu", "mem": "utilization.memory", "enc": "utilization.encoder", "dec": "utilization.decoder",
    "jpg": "utilization.jpeg", "ofa": "utilization.ofa", "pwr": "power.draw", "gtemp": "temperature.gpu",
    "temp": "temperature.gpu", "mtemp": "temperature.memory", "mclk": "clocks.current.memory",
    "pclk": "clocks.current.graphics", "fb": "memory.used", "bar1": "memory.bar1", "ccpm": "memory.protected",
    "rxpci": "pcie.rx", "txpci": "pcie.tx", "sbecc": "ecc.single_bit", "dbecc": "ecc.double_bit",
}  # fmt: skip
_UNIT = {"MB": "MiB", "GPU": None, "#": None, "name": None, "C/G": None, "bool": None, "errs": None, "": None}
_NOT_COUNTERS = {"gpu", "pid", "type", "command", "date", "time"}
NO_PROCESS = "no_process"


def _is_header(words: Sequence[str]) -> bool:
    plain = [word.casefold() for word in words]
    return "gpu" in plain[:3] and len(set(plain) & (set(_COUNTER) | {"pid"})) >= 2


class SmiMonitor:
    """Reads both monitors: with date and time or without, as blanks or as CSV, in the columns of any driver."""

    name = "nvidia-smi-monitor"
    title = "nvidia-smi dmon or pmon"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line with ``#`` names the columns of one of the monitors."""
        lines = (line.strip() for line in opened.head.splitlines()[:200])
        return any(line.startswith("#") and _is_header(cells_of(line.lstrip("#"))) for line in lines)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; ``-`` becomes a missing value.

        Raises
        ------
        InputRefusedError
            If there is no row, or none can be used.
        """
        found, seen = tables(opened, _is_header, is_row=looks_like_row, cut=_cut)
        readings = samples.Readings()
        aside, processes, timed, mps = Aside(), False, True, False
        gpu = samples.gpu_for([None], opened, hints)[None]
        for whole in found:
            plain = Monitored(tuple(name.casefold() for name in whole.names), whole.units, whole.rows, whole.lines)
            processes |= "pid" in plain.names
            if "pid" in plain.names:
                idle = [row[plain.names.index("pid")] == "-" for row in plain.rows]
                aside.add(NO_PROCESS, [line for line, none in zip(plain.lines, idle, strict=True) if none])
                plain.rows = [row for row, none in zip(plain.rows, idle, strict=True) if not none]
                plain.lines = [line for line, none in zip(plain.lines, idle, strict=True) if not none]
            counters = [name for name in plain.names if name not in _NOT_COUNTERS]
            table, values = sound(plain, seen, counters)
            if not table.rows:
                continue
            at = None
            if {"date", "time"} <= set(table.names):
                dates, times = table.column("date") or [], table.column("time") or []
                at, _ = samples.moments([f"{date} {time}" for date, time in zip(dates, times, strict=True)])
            timed &= at is not None
            pids, commands = table.column("pid"), table.column("command")
            entity = None
            if pids is not None:
                shown = commands or [""] * len(pids)
                entity = [f"{pid} {name}".strip() for pid, name in zip(pids, shown, strict=True)]
                mps |= any("M" in kind for kind in table.column("type") or [])
            for name in counters:
                counter = values[name]
                unit = table.units[table.names.index(name)]
                why = counter.why if counter.missing.any() else None
                readings.add(
                    _COUNTER.get(name, name), counter.values, unit=_UNIT.get(unit, unit), at=at, gpu=gpu,
                    workload=hints.workload, device=table.column("gpu"), entity=entity, reason=why,
                )  # fmt: skip
        warnings = []
        if not timed:
            warnings.append("There is no time in the log, so samples are in no order; record with `-o DT`.")
        if mps:
            warnings.append(
                "Clients of MPS are among the processes (type M): the driver counts the use of the GPU for all of them "
                "together."
            )
        return samples.build(
            self.name, opened, hints, readings,
            Account(seen.read, seen.frame(), aside),
            era="pmon" if processes else "dmon", report={"lines_skipped": seen.other}, warnings=warnings,
        )  # fmt: skip


def _cut(line: str, width: int) -> list[str]:
    """Cut a row; the last column of pmon, the command, may hold blanks."""
    cells = cells_of(line)
    if len(cells) <= width:
        return cells
    return [*cells[: width - 1], " ".join(cells[width - 1 :])]
