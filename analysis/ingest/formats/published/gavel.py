"""Gavel's throughputs: pairs of training jobs under CUDA MPS on a K80, a P100 and a V100, in two separate campaigns.

Both files say ``GPU -> job -> partner -> [throughput of the job, throughput of the partner]``, with the partner
``null`` for the job alone, and hold every pair twice, as a mirror. They differ in their keys, in their self pairs and
by 12 to 29 % in their numbers: two formats, two data sets, never one.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import pandas as pd

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.aside import Aside
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.names import TRAINING, WorkloadParts, parse_workload
from analysis.ingest.formats.shared.corun_frames import DID_NOT_RUN, PARTIAL, RAN, workload_frame
from analysis.ingest.text.delimited import read_text
from analysis.reference import gpus
from analysis.reference.mechanism_names import MPS
from analysis.store.parsed import REJECTED_COLUMNS, Parsed, no_rejects

SOLO = "null"

_SPACE = re.compile(r"[ \t\n\r]*")
_START = re.compile(
    r'\s*\{\s*"(?P<gpu>[^"]{1,80})"\s*:\s*\{\s*"(?P<job>[^"]{1,200})"\s*:\s*\{\s*"[^"]{1,200}"\s*:\s*[\[\d]', re.DOTALL
)
_SCALED = re.compile(r"^\('(?P<name>.+)', (?P<scale>\d+)\)$")


@dataclass(frozen=True)
class Cell:
    """One entry of the file.

    Attributes
    ----------
    gpu, job, partner : str
        Keys as written; the partner ``null`` is the job alone.
    value : object
        What JSON holds: a number for a job alone, two numbers for a pair.
    line : int
        Where the partner's key stands.
    """

    gpu: str
    job: str
    partner: str
    value: Any
    line: int


def first_keys(head: str) -> tuple[str, str] | None:
    """Return the first GPU and job of a text that begins like such a file, else None."""
    match = _START.match(head)
    if match is None or f'"{SOLO}"' not in head:
        return None
    return match["gpu"], match["job"]


def unscale(job: str) -> tuple[str, int]:
    """Split ``('ResNet-18 (batch size 16)', 1)`` into the name and the number of GPUs; other names have one."""
    match = _SCALED.match(job)
    return (match["name"], int(match["scale"])) if match else (job, 1)


def read_cells(opened: Opened) -> list[Cell]:
    """Return all cells in the order of the file.

    Raises
    ------
    InputRefusedError
        If the file is too large, isn't valid JSON, or is nested in another way; with the line.
    """
    return _Walk(read_text(opened), opened.name).cells()


class _Walk:
    """Goes through the text once, from key to key."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._decode = json.JSONDecoder().raw_decode

    def cells(self) -> list[Cell]:
        found = []
        end = 0
        for gpu, at in self._keys(self._skip(0)):
            for job, inner in self._keys(at):
                for partner, place in self._keys(inner):
                    line = self._line(place)
                    value, self._end = self._value(place)
                    found.append(Cell(gpu, job, partner, value, line))
        end = self._skip(self._end)
        if end != len(self._text):
            raise self._refuse("there is text after the last brace", end)
        return found

    def _keys(self, at: int) -> Iterator[tuple[str, int]]:
        """Yield every key of the object at a place, with the place of its value; the caller moves ``_end`` past it."""
        self._expect("{", at)
        at = self._skip(at + 1)
        if self._peek(at) == "}":
            self._end = at + 1
            return
        while True:
            self._expect('"', at)
            try:
                key, at = scanstring(self._text, at + 1, True)
            except ValueError as error:
                raise self._refuse("a text isn't closed", at) from error
            at = self._skip(at)
            self._expect(":", at)
            yield key, self._skip(at + 1)
            at = self._skip(self._end)
            if self._peek(at) == "}":
                self._end = at + 1
                return
            self._expect(",", at)
            at = self._skip(at + 1)

    def _value(self, at: int) -> tuple[Any, int]:
        try:
            return self._decode(self._text, at)
        except (ValueError, RecursionError) as error:
            raise self._refuse("a value isn't valid JSON", at) from error

    def _expect(self, character: str, at: int) -> None:
        if self._peek(at) != character:
            raise self._refuse(f"{character!r} is expected" if self._peek(at) else "the file ends in the middle", at)

    def _peek(self, at: int) -> str:
        return self._text[at : at + 1]

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1

    def _refuse(self, what: str, at: int) -> InputRefusedError:
        return InputRefusedError(
            what,
            "Download the throughput file again; it is GPU, then job, then partner.",
            Where(self._name, self._line(at)),
        )


UNIT = "it/s"

#: Rules that set cells aside; cells of jobs on several GPUs and of split placements are no co-runs on one GPU.
MIRRORED = "mirrored_cell"
SCALED = "scale_above_1"
UNCONSOLIDATED = "unconsolidated"


class _Gavel:
    """What both campaigns share."""

    name: str
    title: str
    scaled_keys: bool

    def sniff(self, opened: Opened) -> bool:
        """Say whether the text begins as GPU, job, partner, with this campaign's way of writing jobs."""
        keys = first_keys(opened.head)
        return keys is not None and keys[1].startswith("('") == self.scaled_keys

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the cells; a row of the account is a cell, whether of a job alone or of a pair.

        Raises
        ------
        InputRefusedError
            If the file isn't valid JSON of this form, or no cell can be used.
        """
        cells = read_cells(opened)
        done = _sort(cells)
        if not done.pairs and not done.solos:
            raise InputRefusedError(
                "no cell is a co-run on one GPU", "Use the throughput files of the catalogue.", Where(opened.name)
            )
        run, member = _runs(done)
        names = [cell.job for cell in done.solos] + list(member["workload"])
        rejected = pd.DataFrame(done.rejects, columns=list(REJECTED_COLUMNS)) if done.rejects else no_rejects()
        flags = Counter(flag for flags in member["flags"] for flag in flags)
        return Parsed(
            format=self.name,
            rows_read=len(cells),
            rejected=rejected,
            set_aside=dict(done.aside.counts),
            frames={
                "workload": workload_frame(names, {name: _parts(name) for name in names}),
                "run": run,
                "member": member,
                "solo": pd.DataFrame(
                    [(cell.job, cell.gpu, "throughput", UNIT, cell.value) for cell in done.solos],
                    columns=["workload", "gpu", "measure", "unit", "value"],
                ),
                **done.aside.frames(opened),
            },
            report={
                "encoding": opened.encoding,
                "row": "cell",
                "mechanism": MPS,
                "did_not_run": int((run["outcome"] == DID_NOT_RUN).sum()),
                "flagged": dict(flags),
            },
            warnings=tuple(done.warnings),
            # A file without line ends has all its cells on one line.
            faulty_rows=len(done.rejects),
        )


class GavelOracle(_Gavel):
    """Reads ``oracle_throughputs.json``; self pairs hold both members' own throughput."""

    name = "gavel-oracle"
    title = "Gavel oracle throughputs (JSON)"
    scaled_keys = False


class GavelSimulation(_Gavel):
    """Reads ``simulation_throughputs.json``; keys carry the number of GPUs, self pairs are averaged."""

    name = "gavel-sim"
    title = "Gavel simulation throughputs (JSON)"
    scaled_keys = True


@dataclass
class _Sorted:
    """The cells by what becomes of them; jobs and partners are without their scale, GPUs have their one name."""

    solos: list[Cell] = field(default_factory=list)
    pairs: list[Cell] = field(default_factory=list)
    aside: Aside = field(default_factory=Aside)
    rejects: list[tuple[int, str, str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def _shown(cell: Cell) -> str:
    return f"{cell.gpu} > {cell.job} > {cell.partner}: {cell.value}"


def _sort(cells: Sequence[Cell]) -> _Sorted:
    done = _Sorted()
    solos: dict[tuple[str, str], float] = {}
    pairs: dict[tuple[str, str, str], tuple[float, float]] = {}
    waiting: list[Cell] = []
    contradictory: Counter[str] = Counter()
    for raw in cells:
        rule = _rule(raw)
        fault = _fault(raw)
        if rule is not None and fault is None:
            done.aside.add(rule, [raw.line], [_shown(raw)])
            continue
        cell = Cell(gpus.canonical(raw.gpu), unscale(raw.job)[0], unscale(raw.partner)[0], raw.value, raw.line)
        key = (cell.gpu, cell.job, cell.partner)
        if fault is None and (key[:2] in solos if cell.partner == SOLO else key in pairs):
            fault = "stands a second time under the same keys"
        if fault is not None:
            done.rejects.append((raw.line, f"{raw.gpu} > {raw.job} > {raw.partner}", fault, str(raw.value)[:500]))
        elif cell.partner == SOLO:
            solos[key[:2]] = float(cell.value)
            done.solos.append(Cell(*key, float(cell.value), cell.line))
        else:
            pairs[key] = (float(cell.value[0]), float(cell.value[1]))
            waiting.append(cell)
    taken: set[tuple[str, str, str]] = set()
    for cell in waiting:
        key, mirror = (cell.gpu, cell.job, cell.partner), (cell.gpu, cell.partner, cell.job)
        if cell.job != cell.partner and mirror in taken:
            if pairs[mirror] == pairs[key][::-1]:
                done.aside.add(MIRRORED, [cell.line], [_shown(cell)])
                continue
            contradictory[cell.gpu] += 1
        taken.add(key)
        done.pairs.append(Cell(*key, (*pairs[key], solos.get(key[:2]), solos.get(mirror[:2])), cell.line))
    done.warnings.extend(
        f"{count} pairs on {gpu} don't agree with their mirror; both are kept as repeats"
        for gpu, count in contradictory.items()
    )
    missing = {
        name
        for cell in done.pairs
        for name, value in zip((cell.job, cell.partner), cell.value[2:], strict=True)
        if value is None
    }
    done.warnings.extend(
        f"{name} has no throughput of its own, so its co-runs have no slowdown" for name in sorted(missing)
    )
    return done


def _rule(cell: Cell) -> str | None:
    if cell.gpu.endswith("_unconsolidated"):
        return UNCONSOLIDATED
    if unscale(cell.job)[1] > 1 or (cell.partner != SOLO and unscale(cell.partner)[1] > 1):
        return SCALED
    return None


def _fault(cell: Cell) -> str | None:
    values = [cell.value] if cell.partner == SOLO else cell.value
    if not isinstance(values, list) or len(values) != (1 if cell.partner == SOLO else 2):
        return "isn't a number" if cell.partner == SOLO else "isn't a pair of numbers"
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return "isn't a number"
        if value < 0:
            return "is below 0"
    if cell.partner == SOLO and values[0] == 0 and _rule(cell) is None:
        return "is 0: a job without a throughput of its own can't be slowed down"
    return None


def _runs(done: _Sorted) -> tuple[pd.DataFrame, pd.DataFrame]:
    runs, members = [], []
    # Two equal values of one self pair can be chance; all of a GPU's being equal says that they were averaged.
    apart = {cell.gpu for cell in done.pairs if cell.job == cell.partner and cell.value[0] != cell.value[1]}
    for number, cell in enumerate(done.pairs):
        shared, alone = cell.value[:2], cell.value[2:]
        ran = [value > 0 for value in shared]
        outcome = RAN if all(ran) else PARTIAL if any(ran) else DID_NOT_RUN
        runs.append((number, f"{cell.job} + {cell.partner}", cell.gpu, MPS, 2, outcome, cell.line))
        averaged = cell.job == cell.partner and cell.gpu not in apart
        for slot, name in enumerate((cell.job, cell.partner)):
            slowdown = alone[slot] / shared[slot] if ran[slot] and alone[slot] else None
            flags = ["clipped"] if slowdown == 1.0 else ["averaged"] if averaged and ran[slot] else []
            members.append(
                (
                    number, slot, name, RAN if ran[slot] else DID_NOT_RUN, "throughput", UNIT, alone[slot],
                    shared[slot] if ran[slot] else None, slowdown, flags,
                )
            )  # fmt: skip
    run = pd.DataFrame(runs, columns=["run", "external_id", "gpu", "mechanism", "k", "outcome", "line"])
    member = pd.DataFrame(
        members,
        columns=[
            "run", "slot", "workload", "outcome", "measure", "unit", "solo_value", "corun_value", "slowdown", "flags",
        ],
    )  # fmt: skip
    return run, member.astype({"solo_value": float, "corun_value": float, "slowdown": float})


def _parts(name: str) -> WorkloadParts:
    """All of Gavel's jobs train."""
    parts = parse_workload(name)
    return WorkloadParts(parts.model, parts.family, parts.training_data, parts.batch_size, parts.precision, TRAINING)
