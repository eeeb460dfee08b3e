"""nvprof's metrics and events: one row a device, kernel and metric, over all launches of the kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.cells import Cells, Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import advice
from analysis.ingest.formats.shared.tool_profile import Account, build
from analysis.ingest.text.header import find_header
from analysis.ingest.text.numbers import decide
from analysis.ingest.text.reader import read_table
from analysis.ingest.text.units import Quantities, base, number_texts, read
from analysis.reference.stall_reasons import nvprof_classes
from analysis.store.parsed import Parsed

KERNEL, DEVICE, INVOCATIONS, METRIC, EVENT = "Kernel", "Device", "Invocations", "Metric Name", "Event Name"
_NUMBERS = ("Min", "Max", "Avg")
FAMILY = "nvprof"
COMMAND = advice.COMMAND_OLD


def _wanted(names: tuple[str, ...]) -> bool:
    return {DEVICE, KERNEL, INVOCATIONS, "Avg"} <= set(names) and bool({METRIC, EVENT} & set(names))


class NvprofMetrics:
    """What ``nvprof --metrics`` and ``nvprof --events`` print with ``--csv``."""

    name = "nvprof-metrics"
    title = "nvprof, metrics by kernel"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line of the text is a header of this form."""
        return find_header(opened, INVOCATIONS, _wanted) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the file; the value of a metric is its average over the launches.

        Raises
        ------
        InputRefusedError
            If it is cut off, has no rows, or no row can be understood.
        """
        header = find_header(opened, INVOCATIONS, _wanted)
        if header is None:
            raise InputRefusedError("there is no table of nvprof in it", "Export it again.", Where(opened.name))
        # Only texts are quoted, so quotes don't tell a row from what the program printed.
        header = replace(header, quoted=False)
        cells = read_table(opened, header, plain=(), needed=lambda names: names.index("Avg") + 1, wanted=_wanted)
        naming = METRIC if METRIC in cells.has else EVENT
        cells, counts = _understood(cells, naming)
        if not cells.count:
            first = cells.rejects.faults[0]
            raise InputRefusedError(
                f"none of its {cells.rows_read:,} rows could be understood, the first because {first[2]}",
                f"Profile again with `{COMMAND}`.",
                Where(opened.name, first[0], first[1]),
            )
        separators = decide([number_texts(cells.texts(name)) for name in _NUMBERS if name in cells.has])
        average = read(cells.texts("Avg"), separators)
        launch, first_rows = _kernels(cells)
        kernel = pd.DataFrame(
            {
                "name": cells.at(KERNEL, first_rows),
                "device": [text or None for text in cells.at(DEVICE, first_rows)],
                "invocations": counts[first_rows],
                "duration_ns": np.nan,
                "line": cells.lines[first_rows],
            }
        )
        metric = _metrics(cells, naming, average, launch)
        return build(
            self.name, opened, hints, kernel, metric,
            Account(cells.rows_read, cells.rejects.frame()),
            report={
                "lines_skipped": cells.other_count,
                "lines_skipped_first": [f"{line}: {text[:200]}" for line, text in cells.other[:20]],
                "header_line": header.line,
                "metrics": sorted(set(metric["metric"])),
                "not_available": sorted(set(metric["metric"][np.isnan(metric["value"])])),
                "separators": separators.told,
            },
            warnings=_warnings(metric),
            command=COMMAND,
        )  # fmt: skip


def _warnings(metric: pd.DataFrame) -> list[str]:
    out = ["Values are averages over the launches of a kernel: nvprof prints no single ones."]
    stalls = metric[metric["family"].notna() & metric["value"].notna()]
    if len(stalls):
        out.append(
            "Stall reasons are nvprof's own classes, each of several reasons of Nsight Compute; compare them with "
            "profiles of nvprof, or in these classes."
        )
    return out


#: More launches than any program makes; beyond them a number is damaged.
_MOST = 1e15


def _understood(cells: Cells, naming: str) -> tuple[Cells, Ints]:
    """Reject rows without a kernel or metric, with a wrong number of launches, or whose average is no number."""
    average = read(cells.texts("Avg"))
    counted = read(cells.texts(INVOCATIONS))
    count = counted.values
    named = {name: np.array([bool(text.strip()) for text in cells.codes(name)[1]], dtype=bool)[cells.codes(name)[0]]
             for name in (KERNEL, naming)}  # fmt: skip
    faults = (
        (KERNEL, ~named[KERNEL], "the kernel has no name"),
        (naming, ~named[naming], "the metric has no name"),
        (INVOCATIONS, ~((count >= 1) & (count == np.floor(count)) & (count <= _MOST)), "is no number of launches"),
        ("Avg", average.wrong, "is no number"),
    )
    good = np.ones(cells.count, dtype=bool)
    for column, bad, reason in faults:
        for row in np.flatnonzero(bad & good):
            cells.rejects.add(cells.lines[row], column, reason, cells.at(column, [int(row)])[0])
        good &= ~bad
    kept = cells if good.all() else cells.keep(good)
    return kept, np.nan_to_num(count[good]).astype(np.int64)


def _kernels(cells: Cells) -> tuple[Ints, Ints]:
    """Number the kernels: same device and name, in the same table of the file."""
    key = cells.part.astype(np.int64)
    for name in (DEVICE, KERNEL):
        codes, values = cells.codes(name)
        key = pd.factorize(key * max(len(values), 1) + codes)[0].astype(np.int64)
    first = np.full(int(key.max()) + 1, -1, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key), dtype=np.int64)[::-1]
    return key, first


def _metrics(cells: Cells, naming: str, average: Quantities, launch: Ints) -> pd.DataFrame:
    codes, names = cells.codes(naming)
    names = [name.strip() for name in names]
    classes = nvprof_classes()
    reason = [name.removeprefix("stall_") if name.removeprefix("stall_") in classes and name.startswith("stall_")
              else None for name in names]  # fmt: skip
    text = cells.texts("Avg").to_pylist()
    units = [base(unit).name for unit in average.units]
    reasons = np.array(reason, dtype=object)[codes]
    printed = [None if np.isfinite(value) and unit != "level of 10" else cell
               for value, unit, cell in zip(average.values, np.array(units, dtype=object)[average.unit], text,
                                            strict=True)]  # fmt: skip
    lows = cells.texts("Min").to_pylist() if "Min" in cells.has else [None] * len(text)
    highs = cells.texts("Max").to_pylist() if "Max" in cells.has else [None] * len(text)
    spread = [kept if kept is not None else f"{low} to {high}" if low is not None else None
              for kept, low, high in zip(printed, lows, highs, strict=True)]  # fmt: skip
    return pd.DataFrame(
        {
            "launch": launch,
            "line": cells.lines,
            "section": "nvprof",
            "metric": np.array(names, dtype=object)[codes],
            "unit": np.array(units, dtype=object)[average.unit],
            "value": average.based(),
            "text": spread,
            "family": [FAMILY if value is not None else None for value in reasons],
            "reason": reasons,
        }
    )
