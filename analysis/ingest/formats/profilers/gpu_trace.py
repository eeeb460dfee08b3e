"""Lists of launches with start and duration: `nsys stats` cuda_gpu_trace, and nvprof's ``--print-gpu-trace``."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.profilers.gpu_summary import OTHER_TABLE, row_lines
from analysis.ingest.formats.profilers.nsys_columns import is_trace, meaning, meanings, time_unit
from analysis.ingest.formats.shared.tool_profile import Account, build, dims
from analysis.ingest.text.blocks import Block, cut_out, find_blocks, has_block
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.reader import read_table
from analysis.ingest.text.units import base
from analysis.store.parsed import Parsed

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
