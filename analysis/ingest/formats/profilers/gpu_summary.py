"""Summaries by kernel, without single launches: `nsys stats` cuda_gpu_kern_sum and its like, and nvprof's summary."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.profilers import nsys_columns as col
from analysis.ingest.formats.profilers.nsys_columns import meanings, time_unit
from analysis.ingest.formats.shared.tool_profile import Account, build
from analysis.ingest.text.blocks import Block, Names, cut_out, find_blocks, has_block
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.header import is_other_output, split_line
from analysis.ingest.text.reader import read_table
from analysis.store.parsed import Parsed

#: Rules that set rows aside.
OTHER_TABLE = "other_table"
NOT_A_KERNEL = "not_a_kernel"
REPEATED = "same_kernels_again"

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
    wanted = staticmethod(col.is_summary)


class NvprofSummary(_Summary):
    """Reads what nvprof prints with ``--csv`` alone."""

    name = "nvprof-summary"
    title = "nvprof, summary by kernel"
    section = "nvprof"
    wanted = staticmethod(col.is_nvprof_summary)


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
