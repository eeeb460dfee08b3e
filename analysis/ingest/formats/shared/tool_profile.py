"""Puts a profile together for tools other than ncu: launches, their metrics, which GPU, and what is still missing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.ingest.contract import guesses
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.kernel_names import short_name
from analysis.ingest.formats.ncu import advice
from analysis.reference import gpus
from analysis.store.parsed import Frame, Parsed, no_rejects

_PLACE = re.compile(r"\s*\(\d+\)\s*$")


@dataclass
class Account:
    """What became of the rows of a file.

    Attributes
    ----------
    read : int
        Rows read.
    rejected : pd.DataFrame
        line, column, reason, text.
    aside : Aside
        Rows left out by rule.
    faulty : int, optional
        Number of rejected rows, where lines don't count them.
    """

    read: int
    rejected: pd.DataFrame = field(default_factory=no_rejects)
    aside: Aside = field(default_factory=Aside)
    faulty: int | None = None


def device_gpu(device: str | None) -> str | None:
    """Return the GPU that a device column names, such as ``NVIDIA Tegra X1 (0)``; None where it is only a number."""
    text = _PLACE.sub("", device or "").strip()
    return gpus.canonical(text) if text and not text.isdigit() else None


def dims(frame: pd.DataFrame, columns: Sequence[str]) -> list[str | None]:
    """Write three columns as ``(x, y, z)``, as ncu does; None where one is missing."""
    parts = [pd.to_numeric(frame[name], errors="coerce") for name in columns]
    known = parts[0].notna() & parts[1].notna() & parts[2].notna()
    rows = zip(known, *(part.fillna(0).astype("int64") for part in parts), strict=True)
    return [f"({x}, {y}, {z})" if there else None for there, x, y, z in rows]


def build(
    name: str,
    opened: Opened,
    hints: Hints,
    kernel: pd.DataFrame,
    metric: pd.DataFrame | pa.Table | None,
    account: Account,
    *,
    era: str | None = None,
    ccs: Mapping[str, str] | None = None,
    said: Sequence[str] = (),
    report: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
    command: str | None = None,
) -> Parsed:
    """Complete launches to a parsed file.

    Parameters
    ----------
    name : str
        Format.
    opened, hints
        The file and the user's word.
    kernel : pd.DataFrame
        name, device (the GPU's name where the tool says it), line, and what else of the frame ``kernel`` is known.
    metric : frame, optional
        Rows of ``kernel_metric``.
    account : Account
        The rows.
    era : str, optional
        Version of the form.
    ccs : mapping, optional
        Compute capability by device.
    said : sequence of str
        Lines in which the GPU may be named.
    report, warnings
        What else is told.
    command : str, optional
        What gets stall reasons; by default that of ncu.

    Returns
    -------
    Parsed
        Frames ``workload``, ``kernel`` and, with metrics, ``kernel_metric``.
    """
    workload, assumed = guesses.workload_of(opened.name, hints)
    devices = {device: device_gpu(device) for device in kernel["device"].dropna().unique()}
    told: list[str] = []
    guess: guesses.GpuGuess | None = None
    if hints.gpu is None and devices and all(devices.values()):
        gpu = [devices.get(device) for device in kernel["device"]]
    else:
        cc = [(ccs or {}).get(device) or "" for device in kernel["device"]]
        guess = guesses.gpu_of(cc, opened.name, hints, said)
        gpu = [guess.by_cc[value] for value in cc]
        told += guess.warnings
    rows = kernel.assign(
        launch=range(len(kernel)),
        workload=workload,
        gpu=[named or guesses.UNKNOWN for named in gpu],
        short_name=[short_name(text) for text in kernel["name"]],
    )
    reasons, families = _stalls(metric)
    lacking = advice.missing_for_stalls(reasons, False, bool(rows["duration_ns"].notna().any()))
    wanted = command or (advice.COMMAND_OLD if _before_volta(gpu) else advice.COMMAND)
    if lacking:
        told.append(f"{' '.join(lacking)} To get what is missing, profile with `{wanted}`.")
    frames: dict[str, Frame] = {"workload": guesses.workload_frame(workload), "kernel": rows}
    if metric is not None and len(metric):
        frames["kernel_metric"] = metric
    frames |= account.aside.frames(opened)
    return Parsed(
        format=name,
        era=era,
        rows_read=account.read,
        rejected=account.rejected,
        set_aside=dict(account.aside.counts),
        faulty_rows=account.faulty,
        frames=frames,
        report={
            "encoding": opened.encoding,
            "workload": workload,
            "gpu_candidates": list(guess.candidates) if guess else [],
            "gpu_guessed": guess.guessed if guess else False,
            "devices": sorted(str(device) for device in devices),
            "era": era,
            "stall_reasons": reasons,
            "stall_family": families[0] if len(families) == 1 else None,
            "stall_families": families,
            "missing_for_stalls": lacking,
            "command": wanted if lacking else None,
            **(report or {}),
        },
        warnings=(
            *assumed,
            *(f"{text[0].upper()}{text[1:]}." for text in opened.oddities),
            *warnings,
            *told,
        ),
    )


def _before_volta(names: Sequence[str | None]) -> bool:
    """Say whether Nsight Compute supports none of these GPUs: those before compute capability 7.0."""
    table = gpus.load()
    known = {name for name in names if name in table.index}
    return bool(known) and all(float(str(table.at[name, "cc"])) < 7.0 for name in known)


def _stalls(metric: pd.DataFrame | pa.Table | None) -> tuple[list[str], list[str]]:
    if metric is None or not len(metric):
        return [], []
    frame = metric.select(["family", "reason", "value"]).to_pandas() if isinstance(metric, pa.Table) else metric
    if "family" not in frame.columns:
        return [], []
    known = frame[frame["family"].notna() & frame["value"].notna()]
    return sorted(set(known["reason"])), sorted(set(known["family"]))
