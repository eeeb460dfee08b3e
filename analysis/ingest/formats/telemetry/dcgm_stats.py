"""Reports of `dcgmi stats -j`: what DCGM recorded about one job, in boxes of names and values."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.text.quantities import no_value
from analysis.store.parsed import REJECTED_COLUMNS, Parsed

_MARK = re.compile(r"^Successfully retrieved [\w ]{1,40} for\s+(?:job:?|process)", re.MULTILINE | re.IGNORECASE)
_PART = re.compile(r"^[|+]-+\s+(?:Execution|Performance|Event|Slowdown) Stats\s+-+[+|]", re.MULTILINE)
_JOB = re.compile(r"^Successfully retrieved [\w ]{1,40} for\s+job:?\s*(?P<job>.+?)\.?\s*$", re.IGNORECASE)
_ROW = re.compile(r"^\|(?P<name>[^|]*)\|(?P<value>[^|]*)\|\s*$")
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
                elif (found := _ROW.match(line)) and (found["name"].strip() or found["value"].strip()):
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
