"""What dcgm-exporter serves: samples in Prometheus' text form, one for each device and field."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import dcgm_fields
from analysis.ingest.formats.telemetry.prometheus import Labels, add_series, labels_of
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+(?P<at>-?\d+))?\s*$")
_LABEL = re.compile(r'\s*(?P<key>[A-Za-z_]\w*)\s*=\s*"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:,|$)')
#: A line of the list of fields that the exporter is configured with.
_FIELD = re.compile(r"^\w+\s*,\s*(?:gauge|counter|label|histogram)\s*,", re.IGNORECASE)

#: Rules that set lines aside.
OTHER_METRIC = "other_metric"
FIELD_LIST = "list_of_fields"


class DcgmExporter:
    """Reads one scrape, or several one after the other."""

    name = "dcgm-exporter"
    title = "dcgm-exporter, Prometheus text"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a sample of a DCGM field stands in the first part."""
        return any(
            dcgm_fields.is_field(line) and _SAMPLE.match(line) is not None
            for line in (raw.strip() for raw in opened.head.splitlines()[:2000])
        )

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; blank numbers become missing values, metrics that are not DCGM's are set aside.

        Raises
        ------
        InputRefusedError
            If no sample can be used.
        """
        if opened.text is None:
            raise ValueError("this is no text")
        series: dict[tuple[str, Labels], tuple[list[float], list[float]]] = {}
        faults: list[tuple[int, str | None, str, str]] = []
        read, aside = 0, Aside()
        with opened.text.open(encoding="utf-8-sig", errors="replace") as file:
            for number, raw in enumerate(file, start=1):
                line = raw.strip()
                if not line or line.startswith("#"):
                    continue
                read += 1
                found = _SAMPLE.match(line)
                labels = None if found is None else _labels(found["labels"] or "")
                value = None if found is None else _number(found["value"])
                if found is None and _FIELD.match(line):
                    aside.add(FIELD_LIST, [number])
                elif found is None or labels is None or value is None:
                    what = "value" if found is not None and labels is not None else None
                    faults.append((number, what, "is no sample of a metric", line[:500]))
                elif not dcgm_fields.is_field(found["name"]):
                    aside.add(OTHER_METRIC, [number])
                else:
                    values, times = series.setdefault((found["name"], labels), ([], []))
                    values.append(value)
                    times.append(np.nan if found["at"] is None else float(found["at"]) / 1e3)
        readings = samples.Readings()
        timed = False
        for (name, labels), (values, times) in series.items():
            timed |= not np.isnan(times).all()
            add_series(readings, name, labels, np.array(times), np.array(values), opened, hints)
        return samples.build(
            self.name, opened, hints, readings,
            Account(read, pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)), aside),
            report={"series": len(series)},
            warnings=[] if timed else ["A scrape of dcgm-exporter has no time: it is one moment for each sample."],
        )  # fmt: skip


def _labels(text: str) -> Labels | None:
    """Read the labels; None where they are malformed."""
    out: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _LABEL.match(text, at)
        if found is None:
            return None if text[at:].strip() else labels_of(out)
        out[found["key"]] = re.sub(r"\\(.)", lambda sign: {"n": "\n"}.get(sign[1], sign[1]), found["text"])
        at = found.end()
    return labels_of(out)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return np.nan if text.casefold() in ("n/a", "null", "none") else None
    return value if np.isfinite(value) else np.nan
