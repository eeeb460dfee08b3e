"""Tables that Grafana exports from panels with DCGM's fields: a time, and a column for each series."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from analysis.errors import InputRefusedError, Where
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
            if mark in line and (header := find_header(opened, mark, _wanted_long)) is not None:
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
        opened, header, (), needed=lambda names: len(names), wanted=_wanted_long
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


def _wanted_long(names: tuple[str, ...]) -> bool:
    return all(_first(names, words) for words in (TIME, _VALUE, _NAME))


_SERIES = re.compile(r"(?P<name>(?:DCGM_FI_|DCGM_EXP_|dcgm_)\w+)\s*(?:\{(?P<labels>.*)\})?")
_LABEL = re.compile(r'(?P<key>[A-Za-z_]\w*)\s*[=:]\s*"?(?P<text>[^",}]*)"?')
_TIME = TIME


def _wanted(names: tuple[str, ...]) -> bool:
    times = [name for name in names if name.strip().casefold() in _TIME]
    return bool(times) and any(_SERIES.search(name) for name in names)


class Grafana:
    """Reads Grafana's CSV: with labels in the names of columns or as columns, or a row a sample."""

    name = "grafana-csv"
    title = "Grafana, CSV of DCGM metrics"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a header with a time and DCGM's fields stands in the first lines."""
        return _find(opened) is not None or find(opened) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; empty cells are no samples, as series rarely share all their times.

        Raises
        ------
        InputRefusedError
            If there is no row, or none can be used.
        """
        header = _find(opened)
        long = find(opened) if header is None else None
        if long is not None:
            return parse(opened, hints, long, self.name)
        if header is None:
            raise InputRefusedError("there is no table of Grafana in it", "Export it again.", Where(opened.name))
        check_width(header, opened.name)
        header = replace(header, quoted=False)  # only some cells stand in quotes
        cells = read_fast(opened, header, ()) or read_exact(
            opened, header, (), needed=lambda names: len(names), wanted=_wanted
        )
        readings = samples.Readings()
        time = next(name for name in header.names if name.casefold() in _TIME)
        series = {name: found for name in header.names if (found := _SERIES.search(name)) is not None}
        others = [name for name in header.names if name != time and name not in series]
        separators = None
        if cells.count:
            checked = Checked(cells, tuple(series))
            separators = checked.separators.told
            codes, texts = cells.codes(time)
            times, wrong = samples.moments(texts)
            checked.reject(time, (wrong | np.isnat(times))[codes], "is no time that is known here")
            read = {name: checked.number(name, required=False) for name in series}
            rows = checked.good
            seconds = times[codes].astype("datetime64[us]").astype(np.int64) / 1e6
            labels = {name: cells.codes(name) for name in others}
            group = np.zeros(cells.count, dtype=np.int64)
            for numbers, values in labels.values():
                group = np.unique(group * max(len(values), 1) + numbers, return_inverse=True)[1]
            for number in np.unique(group[rows]):
                here = rows & (group == number)
                first = int(np.flatnonzero(here)[0])
                beside = {name: values[numbers[first]] for name, (numbers, values) in labels.items()}
                for name, found in series.items():
                    there = here & ~(read[name].missing & _empty(read[name].why))
                    given = dict(_LABEL.findall(found["labels"] or ""))
                    add_series(
                        readings, found["name"], labels_of({**beside, **given}), seconds[there],
                        read[name].scaled()[there], opened, hints,
                    )  # fmt: skip
        return samples.build(
            self.name, opened, hints, readings, Account(cells.rows_read, cells.rejects.frame()),
            report={"header_line": header.line, "separators": separators, "series": len(series),
                    "columns_taken_as_labels": others},
        )  # fmt: skip


def _find(opened: Opened) -> Header | None:
    if not any(mark in opened.head for mark in ("DCGM_", "dcgm_")):
        return None
    mark = "DCGM_" if "DCGM_" in opened.head else "dcgm_"
    return find_header(opened, mark, _wanted)


def _empty(why: list[str | None]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([text == "no value" for text in why], dtype=bool)
