"""DCGM's own outputs: logs of `dcgmi dmon`, what dcgm-exporter serves, and reports of `dcgmi stats -j`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import dcgm_fields
from analysis.ingest.formats.telemetry.monitor_tables import cells_of, looks_like_row, sound, tables
from analysis.ingest.formats.telemetry.prometheus import Labels, add_series, labels_of
from analysis.ingest.text.units import no_value
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

_ROW = re.compile(r"^(?P<entity>(?:GPU(?:-I|-CI)?|Switch|CPU|Core|Link)\s+[\d/:]+)\s+(?P<cells>\S.*)$", re.IGNORECASE)
_ENTITY = "Entity"


def _is_header(words: Sequence[str]) -> bool:
    return len(words) > 1 and words[0] == _ENTITY


class DcgmMonitor:
    """Reads the old and the new layout."""

    name = "dcgmi-dmon"
    title = "DCGM, dcgmi dmon"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a line with ``#`` begins with the entity and goes on with fields."""
        lines = (line.strip() for line in opened.head.splitlines()[:200])
        return any(line.startswith("#") and _is_header(cells_of(line.lstrip("#"))) for line in lines)

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples; N/A and DCGM's blank numbers become missing values with their reason.

        Raises
        ------
        InputRefusedError
            If there is no row, or none can be used.
        """
        found, seen = tables(opened, _is_header, is_row=_is_row, cut=_cut)
        readings = samples.Readings()
        gpu = samples.gpu_for([None], opened, hints)[None]
        above: set[str] = set()
        for whole in found:
            fields = [name for name in whole.names if name != _ENTITY]
            table, values = sound(whole, seen, fields)
            entities = table.column(_ENTITY) or []
            device = [text if text.upper().startswith("GPU ") else None for text in entities]
            for name in fields:
                counter, unit = dcgm_fields.SHORT.get(name, (name, dcgm_fields.unit_of(name)))
                numbers, blank = dcgm_fields.blanked(values[name].values)
                why = values[name].why if values[name].missing.any() else None
                if blank is not None:
                    why = [one or two for one, two in zip(blank, values[name].why, strict=True)]
                if unit == "ratio" and np.nanmax(numbers, initial=0.0) > 1.005:
                    above.add(name)
                readings.add(
                    counter, numbers, unit=unit, gpu=gpu, workload=hints.workload, device=device,
                    entity=[None if own else text for own, text in zip(device, entities, strict=True)], reason=why,
                )  # fmt: skip
        warnings = ["There is no time in the log of dcgmi dmon; the samples are in no order."]
        if above:
            warnings.append(
                f"{', '.join(sorted(above))} exceeds 1, as happens under MIG; the values are kept as they are."
            )
        return samples.build(
            self.name, opened, hints, readings, Account(seen.read, seen.frame()),
            report={"lines_skipped": seen.other}, warnings=warnings,
        )  # fmt: skip


def _is_row(line: str) -> bool:
    return _ROW.match(line) is not None or looks_like_row(line)


def _cut(line: str, width: int) -> list[str]:
    found = _ROW.match(line)
    return [] if found is None else [" ".join(found["entity"].split()), *cells_of(found["cells"])]


_SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+(?P<at>-?\d+))?\s*$")
_LABEL = re.compile(r'\s*(?P<key>[A-Za-z_]\w*)\s*=\s*"(?P<text>(?:[^"\\]|\\.)*)"\s*(?:,|$)')
#: A line of the list of fields that the exporter is configured with.
_FIELD = re.compile(r"^\w+\s*,\s*(?:gauge|counter|label|histogram)\s*,", re.IGNORECASE)

#: Rules that set lines aside.
OTHER_METRIC = "other_metric"
REPEATED = "repeated_figures"
#: Labels by which the exporter tells apart who shares a device, the one that names them best first.
_SHARED_BY = ("pod", "exported_pod", "pod_name", "container", "exported_container", "container_name", "namespace",
              "exported_namespace", "pod_namespace", "vgpu")  # fmt: skip
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
        places: dict[tuple[str, Labels], list[int]] = {}
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
                    places.setdefault((found["name"], labels), []).append(number)
                    times.append(np.nan if found["at"] is None else float(found["at"]) / 1e3)
        readings = samples.Readings()
        timed = False
        series, sharers, repeated = _once_for_each_device(series)
        for key in repeated:
            aside.add(REPEATED, places[key])
        for (name, labels), (values, times) in series.items():
            timed |= not np.isnan(times).all()
            add_series(readings, name, labels, np.array(times), np.array(values), opened, hints)
        return samples.build(
            self.name, opened, hints, readings,
            Account(read, pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)), aside),
            report={"series": len(series)},
            warnings=[
                *([] if timed else ["A scrape of dcgm-exporter has no time: it is one moment for each sample."]),
                *([_about_sharers(sharers)] if sharers else []),
            ],
        )  # fmt: skip


_Series = dict[tuple[str, Labels], tuple[list[float], list[float]]]


def _once_for_each_device(series: _Series) -> tuple[_Series, list[str], list[tuple[str, Labels]]]:
    """Take figures of a device that the exporter repeats for each pod on it as the device's, once.

    Returns
    -------
    series : dict
        Without repeats; a device's figure carries its pods in the label ``shared_by``.
    sharers : list of str
        The pods, or virtual GPUs.
    repeated : list
        Keys of the series that were left out.
    """
    groups: dict[tuple[str, Labels], list[tuple[str, Labels]]] = {}
    for name, labels in series:
        rest = labels_of({key: text for key, text in labels if key not in _SHARED_BY})
        groups.setdefault((name, rest), []).append((name, labels))
    out: _Series = {}
    sharers: dict[str, None] = {}
    repeated: list[tuple[str, Labels]] = []
    for (name, rest), keys in groups.items():
        first = series[keys[0]]
        same = all(np.array_equal(series[key], first, equal_nan=True) for key in keys[1:])
        if len(keys) < 2 or not same:
            out.update({key: series[key] for key in keys})
            continue
        pods = [_sharer(dict(labels)) for _, labels in keys]
        sharers.update(dict.fromkeys(pods))
        repeated += keys[1:]
        out[(name, labels_of({**dict(rest), "shared_by": ", ".join(pods)}))] = first
    return out, list(sharers), repeated


def _sharer(labels: dict[str, str]) -> str:
    named = next((labels[key] for key in _SHARED_BY if labels.get(key) and key != "vgpu"), None)
    return named or f"vgpu {labels.get('vgpu', '')}".strip()


def _about_sharers(sharers: list[str]) -> str:
    shown = ", ".join(sharers[:5]) + (f" and {len(sharers) - 5} more" if len(sharers) > 5 else "")
    return (
        f"The values are equal under every one of {shown}: they are the GPU's and no pod's, repeated for each that "
        "shares it. They are kept once."
    )


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


_MARK = re.compile(r"^Successfully retrieved [\w ]{1,40} for\s+(?:job:?|process)", re.MULTILINE | re.IGNORECASE)
_PART = re.compile(r"^[|+]-+\s+(?:Execution|Performance|Event|Slowdown) Stats\s+-+[+|]", re.MULTILINE)
_JOB = re.compile(r"^Successfully retrieved [\w ]{1,40} for\s+job:?\s*(?P<job>.+?)\.?\s*$", re.IGNORECASE)
_BOX_ROW = re.compile(r"^\|(?P<name>[^|]*)\|(?P<value>[^|]*)\|\s*$")
_SECTION = re.compile(r"^[|+]-+\s+(?P<name>[A-Za-z][^-+]*?)\s+-+[+|]")
_GPU = re.compile(r"^\|\s*GPU ID:\s*(?P<gpu>\S+)\s*\|")
_UNIT = re.compile(r"^(?P<name>.*?)\s*\((?P<unit>[^()]*)\)\s*$")
_SEVERAL = re.compile(r"(?P<kind>Avg|Max|Min):\s*(?P<value>[^,]+)")
_UNITS = {"Joules": "J", "Watts": "W", "bytes": "byte", "sec": "s", "%": "%", "MHz": "MHz", "megabytes/sec": "MB/s",
          "Watt": "W", "mhz": "MHz"}  # fmt: skip
_TIMES = ("Start Time", "End Time")
#: Rule that sets rows aside: texts, such as times and identifiers.
TEXT = "text"


class DcgmStats:
    """Reads the summary of a job and, with ``-v``, of each GPU."""

    name = "dcgmi-stats"
    title = "DCGM, dcgmi stats of a job"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the text begins as dcgmi's report does, or holds its parts where the beginning is cut off."""
        return _MARK.search(opened.head) is not None or _PART.search(opened.head) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read all figures; texts are set aside by rule.

        Raises
        ------
        InputRefusedError
            If there is no figure in it.
        """
        if opened.text is None:
            raise ValueError("this is no text")
        rows: list[tuple[str, float, str | None, str | None, str | None, str | None, str | None]] = []
        faults: list[tuple[int, str | None, str, str]] = []
        read, aside = 0, Aside()
        job = device = section = end = None
        above, process = "", None
        with opened.text.open(encoding="utf-8-sig", errors="replace") as file:
            for number, raw in enumerate(file, start=1):
                line = raw.strip()
                if named := _JOB.match(line):
                    job, device, end, process = named["job"].strip(), None, None, None
                elif owner := _GPU.match(line):
                    device, process = owner["gpu"], None
                elif part := _SECTION.match(line):
                    section = part["name"].strip()
                elif (found := _BOX_ROW.match(line)) and (found["name"].strip() or found["value"].strip()):
                    read += 1
                    name, value = found["name"].strip(), found["value"].strip()
                    if name.startswith("- "):
                        name = f"{above.partition(' - ')[0]} {name}"
                    else:
                        above = name
                    if name in ("PID", "Process ID"):
                        process = value
                    if name in _TIMES:
                        end = value
                    figures = _figures(name, value)
                    if not name:
                        faults.append((number, None, "has a value without a name", line[:500]))
                        continue
                    # A time is no figure, and yet it is read: the end of the job is when the figures were taken.
                    if not figures and name not in _TIMES:
                        aside.add(TEXT, [number])
                    of = f"{job} {process}" if process else job
                    rows += [(counter, amount, unit, job, device, of, why if why else None)
                             for counter, amount, unit, why in figures]  # fmt: skip
        readings = samples.Readings()
        gpu = samples.gpu_for([None], opened, hints)[None]
        at, _ = samples.moments([end or ""])
        frame = pd.DataFrame(rows, columns=["name", "value", "unit", "workload", "device", "entity", "reason"])
        for (counter, unit), group in frame.groupby(["name", "unit"], dropna=False, sort=False):
            readings.add(
                str(counter), group["value"].to_numpy(dtype=float), unit=unit if isinstance(unit, str) else None,
                at=np.repeat(at, len(group)), gpu=gpu,
                workload=hints.workload or [_text(value) for value in group["workload"]],
                device=[_text(value) for value in group["device"]], entity=[_text(value) for value in group["entity"]],
                reason=[_text(value) for value in group["reason"]],
            )  # fmt: skip
        return samples.build(
            self.name, opened, hints, readings,
            Account(read, pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)), aside),
            report={"job": job, "sections": section},
            warnings=["Each figure is one number for the whole job."]
            + ([] if job or hints.workload else ["The file doesn't say which job it is of; `--workload` names it."]),
        )  # fmt: skip


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _figures(name: str, value: str) -> list[tuple[str, float, str | None, str | None]]:
    """Return name, value, unit and reason of the figures in a row; none where it holds a text."""
    found = _UNIT.match(name)
    plain = found["name"] if found else name
    unit = _UNITS.get(found["unit"], found["unit"]) if found else None
    several = _SEVERAL.findall(value)
    parts = [(f"{plain} {kind}", text.strip()) for kind, text in several] if several else [(plain, value)]
    out: list[tuple[str, float, str | None, str | None]] = []
    for counter, text in parts:
        reason = no_value(text)
        if reason is not None:
            out.append((counter, np.nan, unit, reason))
            continue
        try:
            out.append((counter, float(text.rstrip("%").replace(",", "")), unit, None))
        except ValueError:
            return []
    return out
