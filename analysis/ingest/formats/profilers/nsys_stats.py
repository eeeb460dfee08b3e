"""Tables of `nsys stats` and nvprof: launches with start and duration, and summaries by kernel, of all ages."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.tool_profile import Account, build, dims
from analysis.ingest.text.blocks import Block, Names, cut_out, find_blocks, has_block
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.header import is_other_output, split_line
from analysis.ingest.text.reader import read_table
from analysis.ingest.text.units import BaseUnit, base
from analysis.store.parsed import Parsed

_UNIT = re.compile(r"^(?P<name>.*?)\s*[\[(](?P<unit>[^()\[\]]*)[\])]$")

#: Plain name -> meaning.
_MEANING = {
    "time": "share", "total time": "total", "instances": "instances", "calls": "instances", "avg": "avg",
    "average": "avg", "med": "median", "median": "median", "min": "min", "minimum": "min", "max": "max",
    "maximum": "max", "stddev": "stddev", "name": "name", "operation": "name", "category": "category", "type": "type",
    "gridxyz": "grid", "blockxyz": "block", "start": "start", "duration": "duration", "corrid": "correlation",
    "correlation_id": "correlation", "grdx": "gx", "grdy": "gy", "grdz": "gz", "blkx": "bx", "blky": "by",
    "blkz": "bz", "grid x": "gx", "grid y": "gy", "grid z": "gz", "block x": "bx", "block y": "by", "block z": "bz",
    "reg/trd": "registers", "registers per thread": "registers", "stcsmem": "static_smem", "static smem": "static_smem",
    "dymsmem": "dynamic_smem", "dynamic smem": "dynamic_smem", "bytes": "bytes", "size": "bytes",
    "throughput": "throughput", "device": "device", "ctx": "context", "context": "context", "strm": "stream",
    "stream": "stream",
}  # fmt: skip

#: Tables that list launches.
TRACE = frozenset({"start", "duration", "gx", "bx", "name"})
#: Tables that list kernels with their times; nvprof's have a type, those of nsys do not.
SUMMARY = frozenset({"share", "total", "instances", "name"})


def meaning(name: str) -> tuple[str, str]:
    """Return what a column means, and its unit as printed.

    Examples
    --------
    >>> meaning("Total Time (ns)"), meaning("Time(%)"), meaning("GrdX")
    (('total', 'ns'), ('share', '%'), ('gx', ''))
    """
    found = _UNIT.match(name.strip())
    plain, unit = (found["name"], found["unit"]) if found else (name.strip(), "")
    return _MEANING.get(plain.strip().casefold(), ""), unit


def meanings(names: Names) -> dict[str, str]:
    """Return meaning -> name as written; of several columns of one meaning the first."""
    out: dict[str, str] = {}
    for name in names:
        key, _ = meaning(name)
        if key:
            out.setdefault(key, name)
    return out


def is_trace(names: Names) -> bool:
    """Say whether these are the columns of a list of launches."""
    return set(meanings(names)) >= TRACE


def is_summary(names: Names) -> bool:
    """Say whether these are the columns of nsys's summary by kernel."""
    found = meanings(names)
    return set(found) >= SUMMARY and "type" not in found


def is_nvprof_summary(names: Names) -> bool:
    """Say whether these are the columns of nvprof's summary: the total is called time, beside its share in percent."""
    found = meanings(names)
    # Up to CUDA 8 there is no column of types: copies are told by their names.
    typed = "type" in found or "Time(%)" in names
    return {"share", "instances", "avg", "name"} <= set(found) and typed and "Time" in names


def time_unit(names: Names, column: str, units: Names | None = None) -> BaseUnit:
    """Return the unit of a column of times: from the row of units, its own name, another time column's, else ns.

    Parameters
    ----------
    names : tuple of str
        All columns.
    column : str
        The one in question.
    units : tuple of str, optional
        The row of units below them.
    """
    candidates = [units[names.index(column)]] if units is not None else []
    candidates += [meaning(column)[1]] + [meaning(name)[1] for name in names]
    for unit in candidates:
        found = base(unit) if unit else None
        if found is not None and found.name == "ns":
            return found
    return BaseUnit("ns")


#: Rules that set rows aside.
OTHER_TABLE = "other_table"
NOT_A_KERNEL = "not_a_kernel"
REPEATED = "same_kernels_again"

#: Calls of CUDA's interface, which a summary without types lists beside kernels.
_API = re.compile(r"cu(?:da)?[A-Z]\w*$")

_STATISTICS = ("total", "median", "min", "max", "stddev")


class _Summary:
    """Both forms, which differ in where units stand and how other activities are told from kernels."""

    name = ""
    title = ""
    section = ""
    wanted: Callable[[Names], bool]

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return has_block(opened, "Name", self._is) or has_block(opened, "Operation", self._is)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the kernels; other activities, and other tables of the file, are set aside by rule.

        Raises
        ------
        InputRefusedError
            If there is no kernel in it, or no row can be understood.
        """
        blocks = find_blocks(opened, "Name", self._is)
        blocks = blocks if any(block.wanted for block in blocks) else find_blocks(opened, "Operation", self._is)
        aside, separators = Aside(), None
        read, skipped, other = 0, 0, 0
        kernels: list[pd.DataFrame] = []
        metrics: list[pd.DataFrame] = []
        rejected: list[pd.DataFrame] = []
        reports = {_kind(block) for block in blocks if block.wanted}
        chosen = _kind(next(block for block in blocks if block.wanted))
        for block in blocks:
            if not block.wanted or _kind(block) != chosen:
                read += block.rows
                aside.add(REPEATED if block.wanted else OTHER_TABLE, row_lines(opened, block))
                other += not block.wanted
                continue
            if not block.rows:
                continue
            kernel, metric, checked, others = self._table(opened, block)
            separators = separators or checked.separators
            start = sum(len(part) for part in kernels)
            read += checked.cells.rows_read
            aside.add(NOT_A_KERNEL, others)
            rejected.append(checked.cells.rejects.frame())
            skipped += checked.cells.other_count if not kernels else 0
            kernels.append(kernel)
            metrics.append(metric.assign(launch=metric["launch"] + start))
        kernel = pd.concat(kernels, ignore_index=True) if kernels else pd.DataFrame()
        if kernel.empty:
            raise InputRefusedError(
                "there is no kernel in it, only other activities or rows that can't be read",
                "Profile a program that launches kernels, with `nsys profile --trace=cuda`.",
                Where(opened.name),
            )
        warnings = ["The file is a summary: durations are averages over the launches of a kernel."]
        if other:
            shown = "Another table of the file is" if other == 1 else f"{other} other tables of the file are"
            warnings.append(f"{shown} set aside.")
        first = next(block for block in blocks if block.wanted)
        named = {device for block in blocks if not block.wanted and (device := _device(opened, block))}
        if len(named) == 1:
            kernel["device"] = named.pop()
        return build(
            self.name, opened, hints, kernel, pd.concat(metrics, ignore_index=True),
            Account(read, pd.concat(rejected, ignore_index=True), aside),
            said=first.header.before,
            report={"lines_skipped": skipped, "lines_skipped_first": list(first.header.before[:20]),
                    "separators": separators.told if separators else None,
                    "tables": len(blocks), "reports": sorted(reports), "duration_from": "average of the summary"},
            warnings=warnings,
        )  # fmt: skip

    def _is(self, names: Names) -> bool:
        return type(self).wanted(names)

    def _table(self, opened: Opened, block: Block) -> tuple[pd.DataFrame, pd.DataFrame, Checked, Ints]:
        names = block.header.names
        found = meanings(names)
        if "total" not in found:
            found["total"] = "Time"
        with cut_out(opened, block) as (part, header):
            cells = read_table(
                part, header, plain=(), needed=lambda given: given.index(found["name"]) + 1, wanted=self._is
            )
        times = {key: found[key] for key in ("total", "avg", "median", "min", "max", "stddev") if key in found}
        checked = Checked(cells, tuple(times.values()))
        checked.text(found["name"])
        count = checked.number(found["instances"], above=0, whole=True)
        values = {
            key: checked.number(name, required=key == "total", least=0).values
            * time_unit(names, name, block.units).factor
            for key, name in times.items()
        }
        aside = self._not_kernels(checked, found)
        keep = checked.good & ~aside
        invocations = np.nan_to_num(count.values[keep]).astype(np.int64)
        average = values["avg"][keep] if "avg" in values else np.full(int(keep.sum()), np.nan)
        average = np.where(np.isnan(average), values["total"][keep] / np.maximum(invocations, 1), average)
        rows = np.flatnonzero(keep)
        kernel = pd.DataFrame(
            {
                "name": [text.strip() for text in cells.at(found["name"], rows)],
                "grid": _dims(cells.at(found["grid"], rows)) if "grid" in found else None,
                "block": _dims(cells.at(found["block"], rows)) if "block" in found else None,
                "device": None,
                "invocations": invocations,
                "duration_ns": np.where(average > 0, average, np.nan),
                "line": cells.lines[rows],
            }
        )
        metric = pd.concat(
            [
                pd.DataFrame(
                    {"launch": np.arange(len(rows)), "line": cells.lines[rows], "section": self.section,
                     "metric": f"time.{key}", "unit": "ns", "value": values[key][keep]}
                )
                for key in _STATISTICS if key in values
            ],
            ignore_index=True,
        )  # fmt: skip
        return kernel, metric.dropna(subset=["value"]), checked, cells.lines[checked.good & aside]

    def _not_kernels(self, checked: Checked, found: dict[str, str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        codes, values = checked.cells.codes(found["name"])
        aside = np.array([value.strip().startswith("[CUDA ") for value in values], dtype=bool)[codes]
        if "category" not in found and "type" not in found:
            aside |= np.array([_API.match(value.strip()) is not None for value in values], dtype=bool)[codes]
        for key, word in (("category", "kernel"), ("type", "gpu activities")):
            if key in found:
                kinds, texts = checked.cells.codes(found[key])
                aside |= np.array([bool(text.strip()) and word not in text.lower() for text in texts], dtype=bool)[
                    kinds
                ]
        return aside


def row_lines(opened: Opened, block: Block) -> list[int]:
    """Return the lines of the rows of a table that is not read."""
    if opened.text is None:
        return []
    found = []
    with opened.text.open("rb") as file:
        file.seek(block.header.start)
        number = block.header.line
        while file.tell() < block.stop:
            number += 1
            line = file.readline().decode("utf-8", errors="replace").strip()
            if line and not is_other_output(line, block.header):
                found.append(number)
    return found


class NsysSummary(_Summary):
    """Reads cuda_gpu_kern_sum, cuda_gpu_kern_gb_sum and cuda_gpu_sum, new and old (gpukernsum)."""

    name = "nsys-kern-sum"
    title = "Nsight Systems, summary by kernel (nsys stats)"
    section = "nsys stats"
    wanted = staticmethod(is_summary)


class NvprofSummary(_Summary):
    """Reads what nvprof prints with ``--csv`` alone."""

    name = "nvprof-summary"
    title = "nvprof, summary by kernel"
    section = "nvprof"
    wanted = staticmethod(is_nvprof_summary)


def _kind(block: Block) -> str:
    found = meanings(block.header.names)
    return "by grid and block" if "grid" in found else "all activities" if "category" in found else "by kernel"


def _device(opened: Opened, block: Block) -> str | None:
    """Return the device that the first row of another table names, such as nvprof's of Unified Memory."""
    if "Device" not in block.header.names or opened.text is None:
        return None
    with opened.text.open("rb") as file:
        file.seek(block.header.start)
        row = split_line(file.readline().decode("utf-8", errors="replace").strip(), block.header.delimiter)
    place = block.header.names.index("Device")
    return row[place].strip() or None if len(row) > place else None


def _dims(texts: list[str]) -> list[str | None]:
    """Write ``128 1 1``, as cuda_gpu_kern_gb_sum prints, like ncu: ``(128, 1, 1)``."""
    split = [text.replace("(", " ").replace(")", " ").replace(",", " ").split() for text in texts]
    return [f"({', '.join(parts)})" if len(parts) == 3 else None for parts in split]


#: Rule that sets rows aside: copies and fills have no grid and are no kernels.
MEMORY = "memory_operation"
_METRICS = (("registers", "launch__registers_per_thread", "register/thread"),
            ("static_smem", "launch__shared_mem_per_block_static", "byte"),
            ("dynamic_smem", "launch__shared_mem_per_block_dynamic", "byte"))  # fmt: skip


class GpuTrace:
    """Reads lists of launches."""

    name = "nsys-gpu-trace"
    title = "Nsight Systems or nvprof, list of launches"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return has_block(opened, "Duration", is_trace)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the launches; copies and fills of memory, and other tables of the file, are set aside by rule.

        Raises
        ------
        InputRefusedError
            If there is no kernel in it, or no row can be understood.
        """
        blocks = find_blocks(opened, "Duration", is_trace)
        aside, separators = Aside(), None
        read, skipped = 0, 0
        kernels: list[pd.DataFrame] = []
        metrics: list[pd.DataFrame] = []
        rejected: list[pd.DataFrame] = []
        for block in blocks:
            if not block.wanted:
                read += block.rows
                aside.add(OTHER_TABLE, row_lines(opened, block))
                continue
            if not block.rows:
                continue
            kernel, metric, checked, memory = _table(opened, block)
            separators = separators or checked.separators
            start = sum(len(part) for part in kernels)
            read += checked.cells.rows_read
            aside.add(MEMORY, memory)
            rejected.append(checked.cells.rejects.frame())
            skipped += checked.cells.other_count if not kernels else 0
            kernels.append(kernel)
            metrics.append(metric.assign(launch=metric["launch"] + start))
        kernel = pd.concat(kernels, ignore_index=True) if kernels else pd.DataFrame()
        if kernel.empty:
            raise InputRefusedError(
                "there is no launch of a kernel in it, only copies of memory or rows that can't be read",
                "Profile a program that launches kernels, with `nsys profile --trace=cuda`.",
                Where(opened.name),
            )
        first = next(block for block in blocks if block.wanted)
        copies = aside.counts[MEMORY]
        warnings = [f"{copies:,} copies and fills of memory are set aside: they are no kernels."] if copies else []
        return build(
            self.name, opened, hints, kernel, pd.concat(metrics, ignore_index=True),
            Account(read, pd.concat(rejected, ignore_index=True), aside),
            said=first.header.before,
            report={"lines_skipped": skipped, "lines_skipped_first": list(first.header.before[:20]),
                    "separators": separators.told if separators else None,
                    "tables": len(blocks), "duration_from": "the trace"},
            warnings=warnings,
        )  # fmt: skip


def _table(opened: Opened, block: Block) -> tuple[pd.DataFrame, pd.DataFrame, Checked, Ints]:
    names = block.header.names
    found = meanings(names)
    with cut_out(opened, block) as (part, header):
        cells = read_table(
            part, header, plain=(found["start"], found["duration"]),
            needed=lambda given: given.index(found["name"]) + 1, wanted=is_trace,
        )  # fmt: skip
    checked = Checked(cells, (found["duration"], found["start"]))
    checked.text(found["name"])
    unit = time_unit(names, found["duration"], block.units)
    duration = checked.number(found["duration"], above=0).values * unit.factor
    grid_codes, grid_texts = cells.codes(found["gx"])
    no_grid = np.array([text.strip() in ("", "-") for text in grid_texts], dtype=bool)[grid_codes]
    name_codes, name_texts = cells.codes(found["name"])
    no_grid |= np.array([text.strip().startswith("[CUDA mem") for text in name_texts], dtype=bool)[name_codes]
    for key in ("gx", "gy", "gz", "bx", "by", "bz"):
        if key in found:
            size = checked.number(found[key], required=False)
            bad = size.missing | (size.values < 1) | (size.values != np.floor(size.values))
            checked.reject(found[key], bad, "is no size of a grid", where=~no_grid)
    keep = checked.good & ~no_grid
    rows = np.flatnonzero(keep)
    # A trace whose columns were edited may lack a side; then the size is not known.
    texts = pd.DataFrame(
        {key: cells.at(found[key], rows) if key in found else None for key in ("gx", "gy", "gz", "bx", "by", "bz")},
        index=range(len(rows)),
    )
    ids = found.get("correlation")
    kernel = pd.DataFrame(
        {
            "launch_id": cells.at(ids, rows) if ids else [str(line) for line in cells.lines[rows]],
            "name": [name.strip() for name in cells.at(found["name"], rows)],
            "grid": dims(texts, ("gx", "gy", "gz")),
            "block": dims(texts, ("bx", "by", "bz")),
            "device": [text.strip() or None for text in cells.at(found["device"], rows)] if "device" in found else None,
            "invocations": 1,
            "duration_ns": duration[keep],
            "line": cells.lines[rows],
        }
    )
    metrics = []
    for key, named, shown in _METRICS:
        if key not in found:
            continue
        column = found[key]
        printed = block.units[names.index(column)] if block.units is not None else meaning(column)[1]
        values = checked.number(column, required=False).values[keep] * (base(printed).factor if printed else 1.0)
        metrics.append(
            pd.DataFrame({"launch": np.arange(len(rows)), "line": cells.lines[rows], "section": "launch",
                          "metric": named, "unit": shown, "value": values}).dropna(subset=["value"])
        )  # fmt: skip
    empty = pd.DataFrame({"launch": pd.Series(dtype="int64")})
    metric = pd.concat(metrics, ignore_index=True) if metrics else empty
    return kernel, metric, checked, cells.lines[checked.good & no_grid]
