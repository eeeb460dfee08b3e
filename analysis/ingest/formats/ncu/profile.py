"""Puts a profile of Nsight Compute together: frames, the account of every row, and the report."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract import guesses
from analysis.ingest.contract.aside import MOST_KEPT, Aside
from analysis.ingest.contract.cells import Cells, Ints
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu import advice
from analysis.ingest.formats.ncu.assembly import Assembled, Measured, assemble, damaged
from analysis.ingest.formats.ncu.stall_metrics import Bools, Floats, accounted, each_once
from analysis.ingest.text.numbers import Numbers, Separators
from analysis.reference.gpus import canonical
from analysis.store.parsed import Frame, Parsed

#: How many places a table of counts may have for each row; above that it is sorted.
_ROOMY = 8


@dataclass(frozen=True)
class Again:
    """Rows that repeat a metric of their launch.

    Attributes
    ----------
    lines : ndarray of int64
        Where they stand.
    texts : list of str
        Metric and value of each.
    warning : str or None
        Says that values differ; None where all repeat the value that counts.
    """

    lines: Ints
    texts: list[str]
    warning: str | None


def once(rows: Measured) -> tuple[Measured, Again | None]:
    """Keep one row for each metric of a launch: the first that has a value.

    A metric that stands in two sections of the report is told apart by these, as the sections are.

    Parameters
    ----------
    rows : Measured
        Rows of metrics.

    Returns
    -------
    tuple of Measured and Again or None
        The rows that count, and those that repeat one of them; None where there are none.
    """
    if not len(rows.launch) or each_once(rows.launch, rows.metric):
        return rows, None
    key = rows.launch.astype(np.int64) * len(rows.section_names) + rows.section
    key = key * len(rows.metric_names) + rows.metric
    if not _repeats(key):
        return rows, None
    # A cell that was damaged is for its own reject to tell.
    sound = np.flatnonzero(~damaged(rows))
    missing = np.isnan(rows.numbers.values[sound])
    order = sound[np.lexsort((sound, missing, key[sound]))]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = key[order[1:]] != key[order[:-1]]
    kept = order[np.repeat(np.flatnonzero(begins), np.diff(np.flatnonzero(begins), append=len(order)))]
    again = np.sort(order[~begins])
    if not len(again):
        return rows, None
    counted = np.empty(len(key), dtype=np.int64)
    counted[order] = kept
    texts = [f"{rows.metric_names[rows.metric[row]]}: {rows.text[int(row)].as_py()}" for row in again]
    mask = np.ones(len(key), dtype=bool)
    mask[again] = False
    return _only(rows, mask), Again(rows.line[again], texts, _differing(rows, again, counted[again]))


def _repeats(key: Ints) -> bool:
    most = int(key.max())
    if most < _ROOMY * len(key):
        return bool((np.bincount(key) > 1).any())
    return len(np.unique(key)) < len(key)


def _differing(rows: Measured, again: Ints, counted: Ints) -> str | None:
    """Say where a row has another value, or a value in another unit, than the one that counts."""
    values, unit = rows.numbers.values, rows.unit
    other = ~np.isnan(values[again]) & ((values[again] != values[counted]) | (unit[again] != unit[counted]))
    if not other.any():
        return None
    first, count = int(again[other][0]), int(other.sum())
    launches = len(np.unique(rows.launch[again[other]]))
    where = "one launch" if launches == 1 else f"{launches:,} launches"
    what = "1 metric stands" if count == 1 else f"{count:,} metrics stand"
    return (
        f"{what} twice with different values in {where}, such as {rows.metric_names[rows.metric[first]]} in lines "
        f"{rows.line[counted[other][0]]:,} and {rows.line[first]:,}: the first value counts, the others were set aside."
    )


def _only(rows: Measured, mask: Bools) -> Measured:
    chosen = pa.array(mask)
    numbers = rows.numbers
    return replace(
        rows,
        launch=rows.launch[mask],
        line=rows.line[mask],
        section=rows.section[mask],
        metric=rows.metric[mask],
        unit=rows.unit[mask],
        numbers=Numbers(numbers.values[mask], numbers.missing[mask], numbers.wrong[mask], numbers.grouped),
        text=rows.text.filter(chosen),
        note=None if rows.note is None else rows.note.filter(chosen),
    )


MAX_RATE = "max_rate"
PRINTED_AGAIN = "printed_again"
#: Words in a file's name by which a profile claims to be of several jobs at once.
_BESIDE = re.compile(r"(?<![a-z])(?:mps|co-?locat\w*|co-?run\w*)(?![a-z])", re.IGNORECASE)
_DEVICE_NAME = "device__attribute_display_name"


def profile(
    name: str,
    opened: Opened,
    hints: Hints,
    cells: Cells,
    measured: Measured,
    separators: Separators,
    *,
    era: str,
    rules: pd.DataFrame | None = None,
    extra_warnings: tuple[str, ...] = (),
) -> Parsed:
    """Assemble measured rows into a parsed file.

    Parameters
    ----------
    name : str
        Format.
    opened, hints
        The file and the user's word.
    cells : Cells
        The table; its rejects are completed here.
    measured : Measured
        The rows of metrics.
    separators : Separators
        How its numbers are written.
    era : str
        Version of the table.
    rules : pd.DataFrame, optional
        Rows of rules.
    extra_warnings : tuple of str
        What the reader of the form has to say.

    Returns
    -------
    Parsed
        Frames ``workload``, ``kernel``, ``kernel_metric`` and, with rules, ``kernel_rule``.

    Raises
    ------
    InputRefusedError
        If no row is left.
    """
    measured, again = once(measured)
    built = assemble(measured)
    for row in np.flatnonzero(built.wrong):
        metric = measured.metric_names[measured.metric[row]]
        reason = f"{metric} is no number here; {separators.why}"
        cells.rejects.add(measured.line[row], "Metric Value", reason, str(measured.text[row].as_py()))
    if built.metric.num_rows == 0 and not built.max_rate.any() and rules is None:
        first = cells.rejects.faults[0] if cells.rejects.faults else (None, None, "no value", "")
        raise InputRefusedError(
            f"none of its {cells.rows_read:,} rows could be understood: {first[2]}",
            "Export the profile again with `ncu --import REPORT.ncu-rep --csv`.",
            Where(opened.name, first[0]),
        )
    workload, assumed = guesses.workload_of(opened.name, hints)
    stated = _device_names(measured)
    said = [text for _, text in cells.other]
    # Distinct texts are few, launches are many.
    which, found = pd.factorize(built.kernel["cc"], use_na_sentinel=False)
    ccs = ["" if pd.isna(cc) else cc for cc in found]
    gpu = guesses.gpu_of(ccs, opened.name, hints, said, sorted(set(stated.values())))
    # One code a launch instead of one string: a million launches share a single name.
    same = pd.Categorical([workload]).take(np.zeros(len(which), dtype=np.intp))
    kernel = built.kernel.assign(workload=same, gpu=pd.Categorical([gpu.by_cc.get(cc) for cc in ccs]).take(which))
    if stated and not hints.gpu:
        # Launches on several GPUs keep the one that each names.
        guessed = [gpu.by_cc.get(cc) for cc in ccs]
        kernel["gpu"] = pd.Categorical(
            [canonical(stated[at]) if at in stated else guessed[code] for at, code in enumerate(which.tolist())]
        )
    share, total = accounted(
        built.marks, measured.launch, measured.metric, measured.metric_names, built.values, len(kernel)
    )
    frames: dict[str, Frame] = {
        "workload": guesses.workload_frame(workload),
        "kernel": kernel,
        "kernel_metric": built.metric,
    }
    if rules is not None:
        frames["kernel_rule"] = rules
    aside = _aside(measured, built)
    if again is not None:
        aside.add(PRINTED_AGAIN, again.lines, again.texts)
        extra_warnings = (*extra_warnings, *([again.warning] if again.warning else []))
    frames |= aside.frames(opened)
    warnings, report = _told(opened, cells, measured, built, separators, share, rules)
    report |= {
        "workload": workload,
        "gpu_candidates": list(gpu.candidates),
        "gpu_guessed": gpu.guessed,
        "total": total,
        "era": era,
    }
    return Parsed(
        format=name,
        era=era,
        rows_read=cells.rows_read,
        rejected=cells.rejects.frame(),
        set_aside=dict(aside.counts),
        frames=frames,
        report=report,
        warnings=(*assumed, *gpu.warnings, *extra_warnings, *warnings),
    )


def _aside(measured: Measured, built: Assembled) -> Aside:
    """Set peak rates aside; where a line holds many values, each is told by its metric."""
    aside = Aside()
    rows = np.flatnonzero(built.max_rate)
    if not len(rows):
        return aside
    lines, few = measured.line[rows], rows[:MOST_KEPT]
    texts = None
    if len(np.unique(lines)) < len(lines):
        names = [measured.metric_names[measured.metric[row]] for row in few]
        texts = [f"{name}: {measured.text[int(row)].as_py()}" for name, row in zip(names, few, strict=True)]
    aside.add(MAX_RATE, lines, texts)
    return aside


def _device_names(measured: Measured) -> dict[int, str]:
    """Return the GPU's name by launch where the raw page states it: the only place in ncu's tables that does."""
    if _DEVICE_NAME not in measured.metric_names:
        return {}
    rows = np.flatnonzero(measured.metric == measured.metric_names.index(_DEVICE_NAME))
    found = {int(measured.launch[row]): str(measured.text[int(row)].as_py()).strip() for row in rows}
    return {launch: name for launch, name in found.items() if any(map(str.isalpha, name)) and name.casefold() != "n/a"}


def _told(
    opened: Opened,
    cells: Cells,
    measured: Measured,
    built: Assembled,
    separators: Separators,
    share: Floats,
    rules: pd.DataFrame | None,
) -> tuple[list[str], dict[str, Any]]:
    """Say what the user should know: warnings, and the report's entries."""
    reasons = built.marks.found()
    absent = advice.unavailable(measured.metric, measured.metric_names, measured.numbers.missing)
    partly = advice.partly_missing(measured.metric, measured.metric_names, measured.numbers.missing)
    wrong_names = advice.misspelt(measured.metric_names)
    corrupt = advice.corrupt(measured.metric_names)
    top = sorted(set(rules["top_reason"].dropna())) if rules is not None else []
    lacking = advice.missing_for_stalls(reasons, bool(top), bool(built.kernel["duration_ns"].notna().any()))
    family = built.marks.main_family()
    known = share[~np.isnan(share)]
    warnings = [f"{text[0].upper()}{text[1:]}." for text in opened.oddities]
    if (beside := _BESIDE.search(guesses.stem(opened.name))) is not None:
        warnings.append(
            f"The name of the file ({beside[0]}) says that another job ran meanwhile: ncu merges clients of MPS "
            "and serialises kernels, so this profile is read as one of the job alone."
        )
    if separators.guessed:
        warnings.append(f"{separators.why[0].upper()}{separators.why[1:]}.")
    if (grouped := measured.numbers.grouped) is not None:
        warnings.append(f"Blanks and apostrophes between digits were read as separating thousands, as in {grouped!r}.")
    warnings += _about_names(absent, wrong_names, corrupt)
    poor = advice.accounted_warning(share, built.kernel["short_name"])
    warnings += [poor] if poor else []
    if lacking:
        warnings.append(f"{' '.join(lacking)} To get what is missing, profile with `{advice.COMMAND}`.")
    short = _short_last_launch(measured)
    warnings += [short] if short else []
    report: dict[str, Any] = {
        "encoding": opened.encoding,
        "separators": {
            "decimal": separators.decimal,
            "thousands": separators.thousands,
            "why": separators.why,
            "guessed": separators.guessed,
        },
        "lines_skipped": cells.other_count,
        "lines_skipped_first": [f"{line}: {text[:200]}" for line, text in cells.other[:20]],
        "header_line": cells.header.line,
        "reader": cells.reader,
        "not_available": absent,
        "partly_missing": partly,
        "misspelt": wrong_names,
        "corrupt_names": corrupt,
        "stall_reasons": reasons,
        "stall_family": family.name if family else None,
        "stall_families": built.marks.families,
        "top_reasons_from_rules": top,
        "accounted": _spread(known),
        "duration_from": built.duration_from,
        "units_converted": built.converted,
        "labels_in_two_sections": _two_sections(measured),
        "missing_for_stalls": lacking,
        "command": advice.COMMAND if lacking else None,
    }
    return warnings, report


def _about_names(absent: list[dict[str, object]], wrong: dict[str, str], corrupt: list[str]) -> list[str]:
    out = []
    for item in absent[:8]:
        better = f"; the valid name is {item['nearest']}" if item["nearest"] else ""
        where = "its only row" if item["rows"] == 1 else f"all {item['rows']} rows"
        out.append(f"{item['metric']} came as n/a in {where}{better}.")
    if len(absent) > 8:
        more = "1 more metric" if len(absent) == 9 else f"{len(absent) - 8} more metrics"
        out.append(f"{more} came as n/a; the report lists {'it' if len(absent) == 9 else 'them'}.")
    listed = {str(item["metric"]) for item in absent}
    for name, better in list(wrong.items())[:8]:
        if name not in listed:
            out.append(f"{name} is no stall metric and counts for no reason; the valid name is {better}.")
    if corrupt:
        shown = ", ".join(corrupt[:3])
        if len(corrupt) == 1:
            out.append(f"The metric name {shown} has lost letters; it is kept as it is.")
        else:
            out.append(f"{len(corrupt)} metric names have lost letters ({shown}); they are kept as they are.")
    return out


def _spread(share: Floats) -> dict[str, float] | None:
    if not len(share):
        return None
    return {
        "median": float(np.median(share)),
        "lowest": float(share.min()),
        "highest": float(share.max()),
        "launches": len(share),
        "launches_below_95": int((share < 95.0).sum()),
    }


def _two_sections(measured: Measured) -> list[str]:
    """List metric names that stand in more than one section: they are told apart by both."""
    width = len(measured.section_names)
    if width == 1:
        return []
    counts = np.bincount(measured.metric.astype(np.int64) * width + measured.section)
    counts = np.pad(counts, (0, -len(counts) % width)).reshape(-1, width)
    several = np.flatnonzero((counts > 0).sum(axis=1) > 1)
    return [measured.metric_names[code] for code in several]


def _short_last_launch(measured: Measured) -> str | None:
    """Notice a file that may have been cut between two rows: all launches have as many metrics but the last."""
    counts = np.bincount(measured.launch)
    if len(counts) < 3 or (counts[:-1] != counts[0]).any() or counts[-1] >= counts[0]:
        return None
    return (
        f"The last launch has {counts[-1]} metrics where all others have {counts[0]}: the file may have been cut off."
    )
