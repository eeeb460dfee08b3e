"""nvidia-smi's logs: `--query-gpu`, `dmon` (devices) and `pmon` (processes)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Cells, Header
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry.monitor_tables import Monitored, cells_of, looks_like_row, sound, tables
from analysis.ingest.text.blocks import Names
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import check_width, find_header, split_line
from analysis.reference import gpus
from analysis.store.parsed import Parsed

_HEAD = re.compile(r"^(?P<name>.*?)\s*(?:[\[(](?P<unit>[^\[\]()]*)[\])])?$")

#: Names of counters of `nvidia-smi --query-gpu` and `--query-compute-apps`.
_OFFICIAL = re.compile(
    r"^(?:utilization\.\w+|memory\.(?:total|used|free|reserved)|power\.[\w.]+|enforced\.power\.limit|temperature\.[\w.]+"
    r"|clocks\.[\w.]+|clocks_[\w.]+|fan\.speed|pstate|pcie\.link\.[\w.]+|pcie\.[rt]x|encoder\.stats\.\w+|ecc\.[\w.]+"
    r"|used_(?:gpu_)?memory|compute_cap|fb_memory_usage\.\w+|protected_memory\.\w+)$"
)
_PARTS = {
    "time": {"timestamp", "time", "datetime", "date_time", "date", "ts"},
    "index": {"index", "gpu_index", "gpu_id", "gpu", "device", "idx", "gpu_idx", "id"},
    "name": {"name", "gpu_name", "device_name", "model"},
    "uuid": {"uuid", "gpu_uuid", "pci_bus_id", "gpu_bus_id", "bus_id", "pci_bus_id_"},
    "pid": {"pid"},
    "process": {"process_name", "process", "command"},
}
#: Users' own spellings, and the counter that they mean.
_MEM = "(?:mem|memory)"
_VRAM = "(?:mem|memory|vram)"
_OWN = tuple(
    (re.compile(pattern), counter, unit)
    for pattern, counter, unit in (
        (rf"(?:util\w*_)?{_MEM}_?util\w*|util\w*_{_MEM}\w*", "utilization.memory", "%"),
        (r"(?:gpu_|sm_)?util(?:ization)?(?:_gpu|_sm)?(?:_pct|_percent|_perc)?|gpu_load|load", "utilization.gpu", "%"),
        (rf"(?:gpu_)?{_VRAM}_?(?:used|usage)(?:_\w+)?|used_{_VRAM}(?:_\w+)?", "memory.used", "MiB"),
        (rf"(?:gpu_)?{_VRAM}_?total(?:_\w+)?|total_{_VRAM}(?:_\w+)?", "memory.total", "MiB"),
        (rf"(?:gpu_)?{_VRAM}_?free(?:_\w+)?|free_{_VRAM}(?:_\w+)?", "memory.free", "MiB"),
        (r"(?:gpu_)?power(?:_draw|_usage)?(?:_w|_watts?)?", "power.draw", "W"),
        (r"(?:gpu_)?temp(?:erature)?(?:_gpu)?(?:_c|_celsius|_degc)?", "temperature.gpu", "C"),
        (r"(?:clock_?s?_?sm|sm_clock|gpu_clock|clock_gpu)(?:_mhz)?", "clocks.current.sm", "MHz"),
        (rf"(?:clock_?s?_?{_MEM}|{_MEM}_clock)(?:_mhz)?", "clocks.current.memory", "MHz"),
    )
)
_SUFFIX = {"mib": "MiB", "gib": "GiB", "mb": "MB", "gb": "GB", "kib": "KiB", "kb": "KB", "bytes": "byte", "mw": "mW"}


@dataclass(frozen=True)
class SmiColumn:
    """A column of a log.

    Attributes
    ----------
    written : str
        As in the header.
    role : str
        ``time``, ``index``, ``name``, ``uuid``, ``pid``, ``process``, ``counter`` or ``other``.
    counter : str
        The driver's name of a counter.
    unit : str or None
        From the header; cells may state their own.
    own : bool
        Whether the name is the user's, and its meaning taken from its words.
    """

    written: str
    role: str
    counter: str = ""
    unit: str | None = None
    own: bool = False


def column(written: str) -> SmiColumn:
    """Say what a column is.

    Examples
    --------
    >>> column("utilization.gpu [%]").unit, column("util_gpu_pct").counter, column("memory_used_mib").unit
    ('%', 'utilization.gpu', 'MiB')
    """
    found = _HEAD.match(written.strip())
    name, unit = (found["name"], found["unit"]) if found else (written.strip(), None)
    plain = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    if _OFFICIAL.match(name.casefold()):
        return SmiColumn(written, "counter", name.casefold(), unit or None)
    for role, names in _PARTS.items():
        if plain in names:
            return SmiColumn(written, role)
    for pattern, counter, usual in _OWN:
        if pattern.fullmatch(plain):
            said = next((_SUFFIX[end] for end in _SUFFIX if plain.endswith(f"_{end}")), None)
            return SmiColumn(written, "counter", counter, unit or said or usual, own=True)
    return SmiColumn(written, "other", name, unit or None)


def is_log(names: Names) -> bool:
    """Say whether a header is that of a log: the driver's counters, or a time and at least two that users named."""
    known = [column(name) for name in names]
    counters = [item for item in known if item.role == "counter"]
    official = [item for item in counters if not item.own]
    if official:
        return len(official) >= 2 or any(item.role in ("time", "index", "name", "uuid", "pid") for item in known)
    return any(item.role == "time" for item in known) and len({item.counter for item in counters}) >= 2


_LINES = 200
_TIME = re.compile(r"\d{4}[/-]\d{2}[/-]\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d+)?")
_VALUE = re.compile(r"[-+]?\d+(?:\.\d+)?\s*(?:%|MiB|W|MHz|C)?|\[?(?:N/A|Not Supported|Unknown Error)\]?")
#: Units that belong to one counter only; the others need a header.
_BY_UNIT = {"W": "power.draw"}
_GROUP = {"W": "power", "MHz": "clocks", "MiB": "memory", "%": "utilization", "": "clocks.unknown"}


class SmiLog:
    """Reads the driver's query logs, with the driver's header, the user's own, or none."""

    name = "nvidia-smi-log"
    title = "nvidia-smi query log"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a header with the driver's counters stands in the first lines, or rows like its own."""
        return _header(opened) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; words such as ``[N/A]`` become missing values with their reason.

        Raises
        ------
        InputRefusedError
            If there are no rows, or none can be used.
        """
        found = _header(opened)
        if found is None:
            raise InputRefusedError("there is no log of nvidia-smi in it", "Record it again.", Where(opened.name))
        header, headless = found
        check_width(header, opened.name)
        cells = read_fast(opened, header, ()) or read_exact(
            opened, header, (), needed=lambda names: len(names), wanted=is_log
        )
        if not cells.rows_read:
            raise InputRefusedError(
                "the log has a header and no rows", "Let nvidia-smi run for longer.", Where(opened.name, header.line)
            )
        columns = [column(name) for name in header.names]
        readings = samples.Readings()
        warnings: list[str] = []
        checked = _samples(opened, hints, cells, columns, readings, warnings) if cells.count else None
        own = {item.written: f"{item.counter} [{item.unit}]" for item in columns if item.own}
        if own:
            warnings.insert(0, "The column names are the user's own; they were taken as " + _pairs(own) + ".")
        if headless:
            warnings.insert(
                0,
                "The log has no header, so columns without a unit of their own are numbered; record without `noheader` "
                "to have their names.",
            )
        if cells.cut_off:
            warnings.append("The last row is cut off, as when recording was stopped; it is rejected.")
        return samples.build(
            self.name, opened, hints, readings, Account(cells.rows_read, cells.rejects.frame()),
            era="without header" if headless else "own header" if own else None,
            report={"header_line": header.line, "lines_skipped": cells.other_count + (header.line == 0),
                    "lines_skipped_first": [f"{line}: {text[:200]}" for line, text in cells.other[:20]],
                    "columns_taken_as": own,
                    "columns_not_read": [item.written for item in columns if item.role == "other"],
                    "separators": checked.separators.why if checked else None},
            warnings=warnings,
        )  # fmt: skip


def _pairs(own: dict[str, str]) -> str:
    return ", ".join(f"{written} = {counter}" for written, counter in list(own.items())[:8])


def _samples(
    opened: Opened,
    hints: Hints,
    cells: Cells,
    columns: list[SmiColumn],
    readings: samples.Readings,
    warnings: list[str],
) -> Checked:
    counters = [item for item in columns if item.role == "counter"]
    checked = Checked(cells, tuple(item.written for item in counters))
    at = None
    time = next((item.written for item in columns if item.role == "time"), None)
    if time is not None:
        codes, texts = cells.codes(time)
        times, wrong = samples.moments(texts)
        blank = np.isnat(times)
        checked.reject(time, wrong[codes], "is no time that is known here")
        checked.reject(time, blank[codes], "has no time")
        at = times[codes]
    else:
        warnings.append("There is no time in the log; add `timestamp` to the query to have one.")
    read = [
        (item, checked.number(item.written, required=False, least=None if item.unit == "C" else 0.0))
        for item in counters
        if item.counter != "pstate"
    ]
    good = checked.good

    def texts_of(role: str) -> list[str | None] | None:
        named = next((item.written for item in columns if item.role == role), None)
        return None if named is None else checked.strings(named).to_pylist()

    names, index, uuid = texts_of("name"), texts_of("index"), texts_of("uuid")
    indices = [item.written for item in columns if item.role == "index"]
    if len(indices) > 1:
        # Inside a container every GPU has index 0: the column that tells GPUs apart counts.
        told = {name: checked.strings(name).to_pylist() for name in indices}
        best = max(indices, key=lambda name: len(set(told[name])))
        if len(set(told[best])) > len(set(told[indices[0]])):
            index = told[best]
            warnings.append(
                f"The columns {' and '.join(repr(name) for name in indices)} both number GPUs; {best!r} tells more of "
                "them apart and was taken."
            )
    pid, process = texts_of("pid"), texts_of("process")
    by_name = samples.gpu_for(set(names or [None]), opened, hints)
    gpu = [by_name[name] for name in names] if names is not None else by_name[None]
    device = index or uuid
    entity = process
    if pid is not None:
        entity = [f"{number} {text or ''}".strip() for number, text in zip(pid, process or pid, strict=True)]
    moment = None if at is None else at[good]
    if device is None and pid is None and moment is not None and len(np.unique(moment)) < len(moment):
        warnings.append(
            "Several rows have the same time and no index of the GPU, so several GPUs can't be told apart; add `index` "
            "to the query."
        )
    for item, values in read:
        absent = values.missing[good]
        reason = None
        if absent.any():
            kept = [text for text, keep in zip(values.why, good, strict=True) if keep]
            reason = [why if there else None for why, there in zip(kept, absent, strict=True)]
        readings.add(
            item.counter, values.scaled()[good], unit=values.unit_of(item.unit), at=moment, workload=hints.workload,
            gpu=gpu, device=device, entity=entity, reason=reason,
        )  # fmt: skip
    return checked


def _header(opened: Opened) -> tuple[Header, bool] | None:
    """Find the header, or make one where rows like nvidia-smi's begin without; the flag says which."""
    if opened.text is None or opened.stats is None:
        return None
    lines = opened.head.splitlines()[:_LINES]
    for line in lines:
        for delimiter in (",", ";", "\t"):
            names = tuple(name.strip() for name in split_line(line, delimiter)) if delimiter in line else ()
            if len(names) > 1 and is_log(names):
                header = find_header(opened, names[0], is_log)
                return None if header is None else (replace(header, quoted=False), False)
    first = next((line for line in lines if line.strip()), "")
    cells = [cell.strip() for cell in first.split(",")]
    if len(cells) < 3 or not _TIME.fullmatch(cells[0]):
        return None
    measured = [cell for cell in cells[1:] if _VALUE.fullmatch(cell)]
    named = [cell for cell in cells[1:] if gpus.known(cell) or "NVIDIA" in cell or cell.startswith("GPU-")]
    if (len(measured) < 2 and not (measured and named)) or len(measured) + len(named) < len(cells) - 1:
        return None
    start = 3 if opened.stats.encoding == "utf-8-sig" else 0
    return Header(_numbered(cells, named, _index_place(lines)), 0, start, ",", False), True


def _index_place(lines: list[str]) -> int | None:
    """Find the column that tells GPUs apart: small whole numbers, another in each row of one moment."""
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    width = len(rows[0]) if rows else 0
    rows = [row for row in rows if len(row) == width]
    moments = [row[0] for row in rows]
    if len(set(moments)) == len(moments):
        return None
    for place in range(1, width):
        numbers = [row[place] for row in rows]
        pairs = set(zip(moments, numbers, strict=True))
        small = all(re.fullmatch(r"\d{1,2}", number) for number in numbers)
        if small and len(set(numbers)) > 1 and len(pairs) == len(rows):
            return place
    return None


def _numbered(cells: list[str], named: list[str], index: int | None = None) -> tuple[str, ...]:
    """Name the columns of a log without a header, as far as a cell tells what it is."""
    out = ["timestamp"]
    for place, cell in enumerate(cells[1:], start=2):
        unit = cell.rpartition(" ")[2] if " " in cell and cell not in named else ""
        if place - 1 == index:
            out.append("index")
        elif cell in named:
            out.append("uuid" if cell.startswith("GPU-") else "name")
        elif unit in _BY_UNIT and _BY_UNIT[unit] not in out:
            out.append(_BY_UNIT[unit])
        else:
            out.append(f"{_GROUP.get(unit, 'utilization')}.column_{place}")
    return tuple(out)


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
