"""Accounts of Slurm jobs (`sacct -p` with TRESUsage fields): what each job or step used of its GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.cells import Cells, Header
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.shared import samples
from analysis.ingest.formats.shared.tool_profile import Account
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import check_width, find_header
from analysis.reference import gpus
from analysis.store.parsed import Parsed

JOB = "JobID"
_USAGE = re.compile(r"^TRESUsage(?:In|Out)(?:Ave|Max|Min|Tot)$")
_PAIR = re.compile(r"^(?P<name>[\w/:.-]+)=(?P<value>.*)$")
_AMOUNT = re.compile(r"^(?P<number>\d+(?:\.\d+)?)(?P<by>[KMGTPE]?)$")
_TIME = re.compile(r"^(?:(?P<days>\d+)-)?(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>\d+(?:\.\d+)?)$")
#: Slurm counts in powers of 1024.
_BY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50, "E": 2.0**60}
_UNITS = {"cpu": "s", "energy": "J", "mem": "byte", "vmem": "byte", "gres/gpumem": "byte", "gres/gpuutil": "%",
          "fs/disk": "byte", "pages": None}  # fmt: skip
_UTILISATION = "gres/gpuutil"
#: What a job was given, by Slurm's names; a GPU counts once, whether its model stands with it or not.
_GIVEN = {"cpu": ("CPUs", 1.0), "mem": ("byte", 1.0), "node": ("nodes", 1.0), "gres/mps": ("% of one GPU", 1.0),
          "gres/shard": ("shards", 1.0)}  # fmt: skip
_HELD = re.compile(r"gres/gpu(?::[\w.-]+)?=(\d+)")
#: Unit of a utilisation that is a sum over several GPUs.
SUMMED = "% of one GPU"
NO_USAGE = "no_usage"


def _wanted(names: tuple[str, ...]) -> bool:
    return JOB in names and any(_USAGE.match(name) for name in names)


class Sacct:
    """Reads ``sacct --parsable`` or ``--parsable2``, whatever separates the cells."""

    name = "slurm-sacct"
    title = "Slurm accounting with TRES usage"

    def sniff(self, opened: Opened) -> bool:
        """Say whether a header with the job and its usage stands in the text."""
        return find_header(opened, "TRESUsage", _wanted) is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the usage of every job and step; jobs without any are set aside by rule.

        Raises
        ------
        InputRefusedError
            If there is no row, or none can be used.
        """
        header = find_header(opened, "TRESUsage", _wanted)
        if header is None:
            raise InputRefusedError("there is no table of sacct in it", "Export it again.", Where(opened.name))
        check_width(header, opened.name)
        cells = _read(opened, replace(header, quoted=False))
        usage = [name for name in header.names if _USAGE.match(name)]
        readings = samples.Readings()
        aside = Aside()
        known = {name: cells.at(name, np.arange(cells.count)) for name in header.names if name and name in cells.has}
        ends = samples.moments([_moment(known, row) for row in range(cells.count)])[0]
        # One list for each counter, filled row by row: a file has thousands of jobs, not millions.
        collected: dict[tuple[str, str | None], list[tuple[float, int]]] = {}
        summed = silent = 0
        for row in range(cells.count):
            line = int(cells.lines[row])
            job = known[JOB][row].strip()
            used = [pair for column in usage for pair in _pairs(column, known[column][row])]
            given = _given(known, row)
            parsed = [*used, *given]
            bad = next((name for name, value, _ in parsed if value is None), None)
            if not job:
                cells.rejects.add(line, JOB, "is empty", "")
            elif bad is not None:
                cells.rejects.add(line, bad.split(" ")[0], "holds an amount that can't be read", bad)
            elif not parsed:
                aside.add(NO_USAGE, [line])
            else:
                silent += not used
                gpus_held = _gpus_held(known, row)
                for name, value, unit in parsed:
                    if value is not None:
                        if _UTILISATION in name and (gpus_held > 1 or (not gpus_held and value > 100)):
                            unit, summed = SUMMED, summed + 1
                        collected.setdefault((name, unit), []).append((value, row))
        for (name, unit), found in collected.items():
            rows = [row for _, row in found]
            readings.add(
                name, np.array([value for value, _ in found]), unit=unit, at=ends[rows],
                workload=hints.workload or [_workload(known, row) for row in rows],
                gpu=[_gpu(known, row, hints) for row in rows], entity=[_entity(known, row) for row in rows],
                device=[known["NodeList"][row].strip() or None for row in rows] if "NodeList" in known else None,
            )  # fmt: skip
        return samples.build(
            self.name, opened, hints, readings,
            Account(cells.rows_read, cells.rejects.frame(), aside),
            report={"header_line": header.line, "usage": usage, **_counts(known)},
            warnings=_warnings(collected, summed, silent),
        )  # fmt: skip


def _counts(known: Mapping[str, list[str]]) -> dict[str, dict[str, int]]:
    """Count the rows of each user and each state."""
    return {
        word: dict(Counter(text.strip().split(" ")[0] for text in known[name] if text.strip()).most_common(50))
        for word, name in (("users", "User"), ("states", "State")) if name in known
    }  # fmt: skip


def _given(known: Mapping[str, list[str]], row: int) -> list[tuple[str, float | None, str | None]]:
    """Return what a job or step was given, and how long it took; amounts that can't be read are left out."""
    out: list[tuple[str, float | None, str | None]] = []
    held = _gpus_held(known, row)
    if held:
        out.append(("AllocTRES gres/gpu", float(held), "GPUs"))
    for part in known["AllocTRES"][row].split(",") if "AllocTRES" in known else []:
        name, _, amount = part.strip().partition("=")
        value = _amount(amount) if name in _GIVEN else None
        if value is not None:
            out.append((f"AllocTRES {name}", value * _GIVEN[name][1], _GIVEN[name][0]))
    elapsed = _amount(known["Elapsed"][row].strip()) if "Elapsed" in known else None
    return [*out, ("Elapsed", elapsed, "s")] if elapsed is not None else out


def _entity(known: Mapping[str, list[str]], row: int) -> str:
    """Return the job or step, with its user and its state where the account has them."""
    told = [known[name][row].strip() for name in ("User", "State") if name in known and known[name][row].strip()]
    return known[JOB][row].strip() + (f" ({', '.join(told)})" if told else "")


def _warnings(collected: Mapping[tuple[str, str | None], object], summed: int, silent: int) -> list[str]:
    out = ["Each figure is one number for a whole job or step; the workload is its name, or its number."]
    if silent:
        out.append(
            f"For {silent:,} {'job or step' if silent == 1 else 'jobs or steps'} no usage was recorded: what "
            f"{'it was' if silent == 1 else 'they were'} given is kept."
        )
    if summed:
        out.append(
            f"Slurm gives gpuutil as the sum over the GPUs of a job, so it may be above 100: {summed:,} "
            f"{'figure is' if summed == 1 else 'figures are'} kept in percent of one GPU."
        )
    if not any("gres/gpu" in name and name.startswith("TRESUsage") for name, _ in collected):
        out.append(
            "There is no figure of a GPU in it. Slurm records them where slurm.conf has "
            "`AccountingStorageTRES=gres/gpuutil,gres/gpumem` and gres.conf `AutoDetect=nvml`."
        )
    return out


def _gpus_held(known: Mapping[str, list[str]], row: int) -> int:
    """Return how many GPUs a job or step was given; 0 where the account doesn't say."""
    for name in ("AllocTRES", "ReqTRES"):
        counts = _HELD.findall(known[name][row]) if name in known else []
        if counts:
            # With a model the same GPUs stand twice: gres/gpu=2,gres/gpu:a100=2.
            return max(int(count) for count in counts)
    return 0


def _read(opened: Opened, header: Header) -> Cells:
    width = len([name for name in header.names if name])
    return read_fast(opened, header, ()) or read_exact(opened, header, (), needed=lambda names: width, wanted=_wanted)


def _pairs(column: str, text: str) -> list[tuple[str, float | None, str | None]]:
    """Cut ``cpu=00:10:00,gres/gpuutil=83`` into name, value and unit; the value is None where it can't be read."""
    out: list[tuple[str, float | None, str | None]] = []
    for part in text.strip().split(","):
        if not part.strip():
            continue
        found = _PAIR.match(part.strip())
        if found is None:
            out.append((f"{column} {part.strip()}", None, None))
            continue
        name = found["name"]
        # gres/gpuutil:a100 is the same counter on one model of GPU.
        out.append((f"{column} {name}", _amount(found["value"]), _UNITS.get(name.partition(":")[0])))
    return out


def _amount(text: str) -> float | None:
    found = _AMOUNT.match(text)
    if found:
        return float(found["number"]) * _BY[found["by"]]
    time = _TIME.match(text)
    if time:
        parts = [float(time[key] or 0) for key in ("days", "hours", "minutes", "seconds")]
        return parts[0] * 86400 + parts[1] * 3600 + parts[2] * 60 + parts[3]
    return None


def _moment(known: dict[str, list[str]], row: int) -> str:
    """Return when the job ended, or began while it still runs."""
    for name in ("End", "Start", "Submit"):
        text = known[name][row].strip() if name in known else ""
        if text and text not in ("Unknown", "None"):
            return text
    return ""


def _workload(known: dict[str, list[str]], row: int) -> str:
    """Return the job's name; a step belongs to the job whose number stands before the point."""
    job = known[JOB][row].strip().split(".")[0]
    if "JobName" not in known:
        return job
    numbers = known[JOB]
    at = numbers.index(job) if "." in numbers[row] and job in numbers else row
    return known["JobName"][at].strip() or job


def _gpu(known: dict[str, list[str]], row: int, hints: Hints) -> str | None:
    if hints.gpu:
        return gpus.canonical(hints.gpu)
    for name in ("AllocTRES", "ReqTRES"):
        found = re.search(r"gres/gpu:([\w.-]+)=", known[name][row]) if name in known else None
        if found:
            return gpus.canonical(found[1])
    return None
