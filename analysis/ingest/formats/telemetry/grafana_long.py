"""Grafana's long table: a row a sample, with a time, a value, the name of the counter, and labels in other columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Header
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import dcgm_fields
from analysis.ingest.formats.telemetry.prometheus import add_series, labels_of
from analysis.ingest.text.checked import Checked
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import check_width, find_header
from analysis.store.parsed import Parsed

TIME = ("time", "timestamp", "date")
_VALUE = ("value", "#value")
_NAME = ("__name__", "metric", "name", "field", "series")
#: Rule that sets rows of metrics aside that aren't DCGM's.
OTHER_METRIC = "other_metric"


def find(opened: Opened) -> Header | None:
    """Find the header of such a table, where DCGM's counters stand below it."""
    if "DCGM_" not in opened.head and "dcgm_" not in opened.head:
        return None
    for line in opened.head.splitlines()[:50]:
        for mark in ("Value", "value"):
            if mark in line and (header := find_header(opened, mark, _wanted)) is not None:
                return header
    return None


def parse(opened: Opened, hints: Hints, header: Header, name: str) -> Parsed:
    """Read the samples of DCGM's counters; those of others are set aside by rule.

    Parameters
    ----------
    opened, hints
        The file and the user's word.
    header : Header
        As `find` found it.
    name : str
        Name of the format.

    Raises
    ------
    InputRefusedError
        If no sample can be used.
    """
    check_width(header, opened.name)
    header = replace(header, quoted=False)
    cells = read_fast(opened, header, ()) or read_exact(
        opened, header, (), needed=lambda names: len(names), wanted=_wanted
    )
    time, value, counter = (_first(header.names, words) for words in (TIME, _VALUE, _NAME))
    labels = [column for column in header.names if column not in (time, value, counter)]
    readings, aside, separators = samples.Readings(), Aside(), None
    if cells.count:
        checked = Checked(cells, (value,))
        separators = checked.separators.told
        codes, texts = cells.codes(time)
        times, wrong = samples.moments(texts)
        checked.reject(time, (wrong | np.isnat(times))[codes], "is no time that is known here")
        read = checked.number(value, required=False)
        seconds = times[codes].astype("datetime64[us]").astype(np.int64) / 1e6
        numbers, names = cells.codes(counter)
        known = np.array([dcgm_fields.is_field(text.strip()) for text in names], dtype=bool)[numbers]
        aside.add(OTHER_METRIC, cells.lines[checked.good & ~known])
        beside = {column: cells.codes(column) for column in labels}
        group = numbers.astype(np.int64)
        for places, values in beside.values():
            group = np.unique(group * max(len(values), 1) + places, return_inverse=True)[1]
        rows = checked.good & known
        for number in np.unique(group[rows]):
            here = np.flatnonzero(rows & (group == number))
            given = {column: values[places[here[0]]].strip() for column, (places, values) in beside.items()}
            add_series(
                readings, names[numbers[here[0]]].strip(), labels_of(given), seconds[here], read.scaled()[here], opened,
                hints,
            )  # fmt: skip
    return samples.build(
        name, opened, hints, readings, Account(cells.rows_read, cells.rejects.frame(), aside), era="long table",
        report={"header_line": header.line, "separators": separators, "columns_taken_as_labels": labels},
    )  # fmt: skip


def _first(names: tuple[str, ...], words: tuple[str, ...]) -> str:
    return next((name for name in names if name.strip().casefold() in words), "")


def _wanted(names: tuple[str, ...]) -> bool:
    return all(_first(names, words) for words in (TIME, _VALUE, _NAME))
