"""Traces of PyTorch's profiler (Kineto): the launches of kernels in them, and nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared.tool_profile import Account, build
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

_PIECE = 1 << 20
_LONGEST = 64 << 20
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BLANK = re.compile(r"[\s,]*")


class TraceFile:
    """A trace: its events one by one, and what stands around them once they are read.

    Parameters
    ----------
    path : Path
        The text.
    name : str
        The file's name, for errors.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        #: Everything beside the events, once they are read.
        self.around: dict[str, Any] = {}

    def events(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield line and content of every event.

        Raises
        ------
        InputRefusedError
            If the text is cut off, or no JSON.
        """
        decoder = json.JSONDecoder()
        with self._path.open(encoding="utf-8-sig", errors="replace") as file:
            text, line = "", 1
            start = None
            while start is None:
                piece = file.read(_PIECE)
                if not piece or len(text) > _LONGEST:
                    raise self._broken(line, "the list of events (traceEvents) is missing")
                text += piece
                start = _begin(text)
            before, at = text[:start], start
            line += text.count("\n", 0, at)
            while True:
                blank = _BLANK.match(text, at)
                stop = blank.end() if blank else at
                line += text.count("\n", at, stop)
                at = stop
                if at < len(text) and text[at] == "]":
                    break
                try:
                    event, end = decoder.raw_decode(text, at)
                except RecursionError as error:
                    raise self._broken(line, "an event is nested too deeply") from error
                except ValueError as error:
                    piece = file.read(_PIECE)
                    if not piece:
                        raise self._broken(
                            line, "the text ends, or stops being JSON, in the middle of an event"
                        ) from error
                    if len(text) - at > _LONGEST:
                        raise self._broken(line, "an event is longer than 64 MiB, or no JSON") from error
                    text, at = text[at:] + piece, 0
                    continue
                if isinstance(event, dict):
                    yield line, event
                line += text.count("\n", at, end)
                at = end
                if len(text) - at < 1 << 12:
                    text, at = text[at:] + file.read(_PIECE), 0
            rest = text[at:] + file.read()
        self.around = self._outside(before, rest)

    def _outside(self, before: str, rest: str) -> dict[str, Any]:
        try:
            found = json.loads(before + rest)
        except (ValueError, RecursionError) as error:
            raise self._broken(None, "the text behind the events is cut off or no JSON") from error
        return found if isinstance(found, dict) else {}

    def _broken(self, line: int | None, what: str) -> InputRefusedError:
        return InputRefusedError(
            what,
            "Export the trace again, and let the profiler finish before the program ends.",
            Where(self._name, line),
        )


def _begin(text: str) -> int | None:
    """Return the place of the first event: in the list of events, or in a bare list."""
    bare = text.lstrip()
    if bare.startswith("["):
        return len(text) - len(bare) + 1
    found = _EVENTS.search(text)
    return found.end() if found else None


_MARK = re.compile(r'"traceEvents"\s*:|^\s*\[\s*\{[^{}]*"ph"\s*:')
_ARGS = (
    ("registers per thread", "launch__registers_per_thread", "register/thread"),
    ("shared memory", "launch__shared_mem_per_block", "byte"),
    ("blocks per SM", "kineto.blocks_per_sm", "block"),
    ("warps per SM", "kineto.warps_per_sm", "warp"),
    # Computed from the launch's geometry and capped by its waves: not what ncu measures as achieved occupancy.
    ("est. achieved occupancy %", "kineto.estimated_occupancy", "%"),
    ("theoretical occupancy %", "kineto.estimated_occupancy", "%"),
)  # fmt: skip


class Kineto:
    """Reads ``torch.profiler``'s Chrome trace, plain or gzipped."""

    name = "kineto-trace"
    title = "PyTorch profiler trace"

    def sniff(self, opened: Opened) -> bool:
        """Say whether this is JSON with a list of trace events."""
        return opened.text is not None and bool(_MARK.search(opened.head[: 1 << 16] or ""))

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the launches; only events of the category ``kernel`` are kernels.

        Raises
        ------
        InputRefusedError
            If there is no kernel in it, or the trace is cut off.
        """
        if opened.text is None:
            raise InputRefusedError("this is no text", "Export the trace again.", Where(opened.name))
        trace = TraceFile(opened.text, opened.name)
        kinds: Counter[str] = Counter()
        launches: list[dict[str, Any]] = []
        metrics: list[tuple[int, int, str, str, float]] = []
        rejected: list[tuple[int, str | None, str, str]] = []
        seen = 0
        for line, event in trace.events():
            category = str(event.get("cat", event.get("ph", "")))
            if category.casefold() != "kernel" or event.get("ph", "X") != "X":
                kinds[category] += 1
                continue
            seen += 1
            fault = _fault(event)
            if fault is not None:
                # Several events may stand in one line: the number of the event keeps them apart.
                rejected.append((line, fault[0], fault[1], str(event)[:500]))
                continue
            launches.append(_launch(event, line))
            metrics += _metrics(event, len(launches) - 1, line)
        devices = {
            str(item.get("id", place)): item
            for place, item in enumerate(trace.around.get("deviceProperties") or [])
            if isinstance(item, dict)
        }
        if not launches:
            shown = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common(4)) or "none at all"
            raise InputRefusedError(
                f"there is no launch of a kernel among the events ({shown})"
                if not rejected
                else f"none of its {seen:,} kernels can be used, the first because {rejected[0][2]}",
                "Record on a GPU, with torch.profiler.profile(activities=[ProfilerActivity.CUDA]).",
                Where(opened.name),
            )
        kernel = pd.DataFrame(launches)
        overlong = _cut_overlaps(kernel)
        kernel = kernel.drop(columns=["ts", "stream"])
        names = {key: f"{item.get('name')} ({key})" for key, item in devices.items() if item.get("name")}
        ccs = {
            names[key]: f"{item['computeMajor']}.{item.get('computeMinor', 0)}"
            for key, item in devices.items()
            if key in names and "computeMajor" in item
        }
        ran_on = kernel["device"].nunique()
        kernel["device"] = [names.get(key) for key in kernel["device"]]
        table = pd.DataFrame(metrics, columns=["launch", "line", "metric", "unit", "value"]).assign(section="kineto")
        warnings = []
        if (table["metric"] == "kineto.estimated_occupancy").any():
            warnings.append(
                "The occupancy is the profiler's estimate from the size of each launch; it is not comparable with the "
                "achieved occupancy of Nsight Compute."
            )
        if ran_on > 1:
            warnings.append(
                f"The kernels ran on {ran_on} GPUs; the device is kept with each launch, and shares over the whole "
                "file pool the GPUs' times: compare within a GPU."
            )
        if overlong:
            shown = "; ".join(overlong[:_NAMED])
            more = f" and {len(overlong) - _NAMED:,} more" if len(overlong) > _NAMED else ""
            warnings.append(
                f"Kernels of one stream run one after the other, and {shown}{more} lasts past the start of the next, "
                "which cannot be: its duration was cut there."
            )
        return build(
            self.name, opened, hints, kernel, table,
            Account(seen, pd.DataFrame(rejected, columns=list(REJECTED_COLUMNS)), faulty=len(rejected)),
            era=f"schema {trace.around['schemaVersion']}" if "schemaVersion" in trace.around else None, ccs=ccs,
            report={"other_events": dict(kinds.most_common()), "duration_from": "dur of each kernel event"},
            warnings=warnings,
        )  # fmt: skip


#: Kernels that a warning names.
_NAMED = 3
#: Rounding, and kernels that start while the one before drains, overlap by less than these.
_SLACK_US, _SLACK_SHARE = 1.0, 0.05


def _cut_overlaps(kernel: pd.DataFrame) -> list[str]:
    """Cut durations that reach past the start of the next kernel of the stream, in place, and name the kernels."""
    ordered = kernel.dropna(subset=["ts", "duration_ns"]).sort_values("ts", kind="stable")
    ahead = ordered.groupby(["device", "stream"], sort=False)["ts"].shift(-1)
    room = (ahead - ordered["ts"]) * 1e3
    over = ordered["duration_ns"] - room
    # Equal starts say that starts were not recorded, and nothing of durations.
    wrong = (room > 0) & (over > _SLACK_US * 1e3) & (over > _SLACK_SHARE * ordered["duration_ns"])
    for at in ordered.index[wrong]:
        kernel.loc[at, "duration_ns"] = room[at]
    return [
        f"{name} ({was / 1e3:,.6g} us, next after {there / 1e3:,.6g} us)"
        for name, was, there in zip(
            ordered.loc[wrong, "name"], ordered.loc[wrong, "duration_ns"], room[wrong], strict=True
        )
    ]


def _fault(event: dict[str, Any]) -> tuple[str, str] | None:
    if not isinstance(event.get("name"), str) or not event["name"].strip():
        return "name", "the kernel has no name"
    duration = _number(event.get("dur"))
    if np.isnan(duration):
        return "dur", "the duration is missing or no number"
    if duration < 0:
        return "dur", "the duration is negative"
    return None


def _launch(event: dict[str, Any], line: int) -> dict[str, Any]:
    args = _args(event)
    duration = _number(event["dur"])
    return {
        "launch_id": None if args.get("correlation") is None else str(args["correlation"]),
        "name": event["name"].strip(),
        "grid": _dims(args.get("grid")),
        "block": _dims(args.get("block")),
        "device": str(args.get("device", "0")),
        "ts": _number(event.get("ts")),
        "stream": f"{event.get('pid')} {args.get('stream', event.get('tid'))}",
        "invocations": 1,
        # Times are in microseconds; a rounded zero says nothing.
        "duration_ns": duration * 1e3 if duration > 0 else np.nan,
        "line": line,
    }


def _metrics(event: dict[str, Any], launch: int, line: int) -> list[tuple[int, int, str, str, float]]:
    args = _args(event)
    found = [(launch, line, metric, unit, _number(args[key])) for key, metric, unit in _ARGS if key in args]
    return [row for row in found if not np.isnan(row[-1])]


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _dims(value: Any) -> str | None:
    if (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(part, int | float) and np.isfinite(_number(part)) for part in value)
    ):
        return f"({', '.join(str(int(part)) for part in value)})"
    return None


def _number(value: Any) -> float:
    if isinstance(value, bool):
        return np.nan
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return number if np.isfinite(number) else np.nan
