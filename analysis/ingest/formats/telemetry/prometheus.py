"""Answers of Prometheus (`query_range`, `query`) about DCGM's fields: series of time and value with labels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.formats.telemetry import dcgm_fields
from analysis.store.parsed import REJECTED_COLUMNS, Parsed
from analysis.store.possible import EARLIEST, LATEST

Labels: TypeAlias = tuple[tuple[str, str], ...]

_MARK = re.compile(r'"resultType"\s*:\s*"(?:matrix|vector)"')
_HEAD = 1 << 16
_MAX_BYTES = 512 << 20

#: Labels of the job behind a series, the one to prefer first: the exporter's own pod says nothing of it.
_JOB = ("exported_pod", "pod", "pod_name", "hpc_job", "slurm_job_id", "jobid", "job_id")
_DEVICE = ("gpu", "device", "UUID", "uuid")
_MODEL = ("modelName", "modelname", "model", "gpu_model")


class PrometheusJson:
    """Reads what the HTTP API of Prometheus answers."""

    name = "prometheus-json"
    title = "Prometheus, answer of query_range"

    def sniff(self, opened: Opened) -> bool:
        """Say whether this is JSON with a result of series."""
        head = opened.head[:_HEAD].lstrip()
        return head.startswith("{") and '"status"' in head and _MARK.search(head) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the samples.

        Raises
        ------
        InputRefusedError
            If it is no JSON, the query failed, or no sample can be used.
        """
        where = Where(opened.name)
        result = _result(opened, where)
        readings = samples.Readings()
        faults: list[tuple[int | None, str | None, str, str]] = []
        read, wrong, unnamed = 0, 0, 0
        for place, item in enumerate(result):
            metric = item.get("metric") if isinstance(item, dict) else None
            points = _points(item) if isinstance(item, dict) else []
            read += len(points)
            name = str(metric.get("__name__", "")) if isinstance(metric, dict) else ""
            if not isinstance(metric, dict):
                wrong += len(points)
                faults.append((None, "metric", f"series {place + 1} has no labels", str(item)[:500]))
                continue
            unnamed += not name
            times, values, bad = _samples(points)
            wrong += int(bad.sum())
            for number in np.flatnonzero(bad)[:20]:
                faults.append(
                    (None, "values", f"series {place + 1} holds no time and number", str(points[number])[:500])
                )
            given = labels_of({key: str(text) for key, text in metric.items() if key != "__name__"})
            add_series(readings, name or "expression", given, times[~bad], values[~bad], opened, hints)
        warnings = []
        if unnamed:
            warnings.append(
                f"{unnamed} series have no name, as the query computed them; they are kept as 'expression' without a "
                "unit. Query the plain metric to have its name."
            )
        return samples.build(
            self.name, opened, hints, readings,
            Account(read, pd.DataFrame(faults, columns=list(REJECTED_COLUMNS)), faulty=wrong),
            report={"series": len(result)}, warnings=warnings,
        )  # fmt: skip


def _result(opened: Opened, where: Where) -> list[Any]:
    path = opened.text or opened.path
    if path.stat().st_size > _MAX_BYTES:
        raise InputRefusedError("the answer is larger than 512 MiB", "Query a shorter range or a longer step.", where)
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputRefusedError("the JSON is cut off or damaged", "Run the query again.", where) from error
    if document.get("status") != "success":
        why = str(document.get("error", "no reason given"))[:200]
        raise InputRefusedError(f"the query failed: {why}", "Correct the query and run it again.", where)
    result = (document.get("data") or {}).get("result")
    if not isinstance(result, list) or not result:
        raise InputRefusedError(
            "the query found no series", "Check the metric's name and the range of time, and run it again.", where
        )
    return result


def _points(item: Mapping[str, Any]) -> list[Any]:
    values = item.get("values")
    if isinstance(values, list):
        return values
    return [item["value"]] if "value" in item else []


def _samples(
    points: list[Any],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return times in seconds, values (NaN is a value of Prometheus: none), and which points are neither."""
    pairs = [point if isinstance(point, list) and len(point) == 2 else (None, None) for point in points]
    times = pd.to_numeric(pd.Series([pair[0] for pair in pairs], dtype=object), errors="coerce").to_numpy(dtype=float)
    texts = pd.Series([pair[1] for pair in pairs], dtype=object)
    values = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float)
    nothing = texts.astype(str).str.fullmatch(r"(?i)[+-]?(?:nan|inf)").to_numpy(dtype=bool)
    # Out of the range of time is no time: neither NaN nor a moment that nothing was measured at.
    dated = (times >= EARLIEST.timestamp()) & (times <= LATEST.timestamp())
    bad = ~dated | (np.isnan(values) & ~nothing)
    return times, np.where(np.isfinite(values), values, np.nan), bad


def labels_of(given: Mapping[str, str]) -> Labels:
    """Return labels that can be compared and hashed."""
    return tuple(sorted(given.items()))


def add_series(
    readings: samples.Readings,
    name: str,
    labels: Labels,
    times: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
    opened: Opened,
    hints: Hints,
) -> None:
    """Add a series: its GPU and device from the labels, its workload from the user's word or the pod or job.

    Parameters
    ----------
    readings : Readings
        Takes the samples.
    name : str
        The metric.
    labels : tuple
        Pairs of label and text.
    times : ndarray of float64
        Seconds since 1970, NaN where unknown.
    values : ndarray of float64
        Values; DCGM's blank numbers become missing.
    opened, hints
        The file and the user's word.
    """
    known = {key: text for key, text in labels if text}
    job = next((known[key] for key in _JOB if key in known), None)
    model = next((known[key] for key in _MODEL if key in known), None)
    instance = known.get("GPU_I_ID") or known.get("gpu_instance_id")
    host = known.get("Hostname") or known.get("hostname")
    device = next((known[key] for key in _DEVICE if key in known), None)
    shared = known.get("shared_by")
    entity = job or (f"MIG instance {instance}" if instance else f"shared by {shared}" if shared else None)
    kept, blank = dcgm_fields.blanked(values)
    reason = blank
    if np.isnan(kept).any():
        given = blank or [None] * len(kept)
        reason = [why or ("no value" if np.isnan(value) else None) for why, value in zip(given, kept, strict=True)]
    at = None
    if not np.isnan(times).all():
        # Seconds with a fraction are not exact in binary: a millisecond must not become 999 microseconds.
        moments = pd.Series(pd.to_datetime(pd.Series(times), unit="s", errors="coerce"))
        at = moments.dt.round("us").to_numpy().astype("datetime64[us]")
    readings.add(
        name, kept, unit=dcgm_fields.unit_of(name), at=at, workload=hints.workload or job,
        gpu=samples.gpu_for([model], opened, hints)[model], device=f"{host}/{device}" if host and device else device,
        entity=entity, reason=reason,
    )  # fmt: skip
