"""Logs of `nvidia-smi --query-gpu`: units in header or cells, words in place of values, several GPUs in one file."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Header
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import smi_columns
from analysis.ingest.formats.telemetry.smi_columns import SmiColumn
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import check_width, find_header, split_line
from analysis.reference import gpus
from analysis.store.parsed import Parsed

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
            opened, header, (), needed=lambda names: len(names), wanted=smi_columns.is_log
        )
        if not cells.rows_read:
            raise InputRefusedError(
                "the log has a header and no rows", "Let nvidia-smi run for longer.", Where(opened.name, header.line)
            )
        columns = [smi_columns.column(name) for name in header.names]
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
            if len(names) > 1 and smi_columns.is_log(names):
                header = find_header(opened, names[0], smi_columns.is_log)
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
    return Header(_numbered(cells, named), 0, start, ",", False), True


def _numbered(cells: list[str], named: list[str]) -> tuple[str, ...]:
    """Name the columns of a log without a header, as far as a cell tells what it is."""
    out = ["timestamp"]
    for place, cell in enumerate(cells[1:], start=2):
        unit = cell.rpartition(" ")[2] if " " in cell and cell not in named else ""
        if cell in named:
            out.append("uuid" if cell.startswith("GPU-") else "name")
        elif unit in _BY_UNIT and _BY_UNIT[unit] not in out:
            out.append(_BY_UNIT[unit])
        else:
            out.append(f"{_GROUP.get(unit, 'utilization')}.column_{place}")
    return tuple(out)
