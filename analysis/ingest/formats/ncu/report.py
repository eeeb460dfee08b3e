"""Binary reports of Nsight Compute (``.ncu-rep``), read with NVIDIA's own software where the user installed it.

Two ways lead there: the package `ncu-report`, or the program ``ncu``. Both are under NVIDIA's proprietary licence:
nothing of them ships with StallScope. Either runs in a process of its own and writes the raw page, which is then read
like any other.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from analysis.errors import InputRefusedError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.ncu.long import NcuLong
from analysis.ingest.formats.ncu.wide import NcuWide
from analysis.settings import get_settings
from analysis.store.parsed import Parsed

_MAGIC = b"NVR\x00"
_SECONDS = 600
_OPTIONS = ("--csv", "--page", "raw", "--print-units", "base")
_SCRIPT = Path(__file__).with_name("report_table.py")
BY_HAND = "ncu --import REPORT.ncu-rep --csv --page raw --print-units base"


@dataclass(frozen=True)
class Reader:
    """One way to read a report.

    Attributes
    ----------
    name : str
        How the report of the import calls it.
    before, after : tuple of str
        The command, before and after the path of the report.
    prints : bool
        Whether the table comes on standard output; otherwise the path to write it to follows the report's.
    """

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    prints: bool


def readers() -> list[Reader]:
    """Return the ways that are there: the package first, which needs no matching version of the program."""
    found = []
    package = find_spec("ncu_report")
    if package is not None and package.origin is not None:
        place = Path(package.origin).parent
        folder = place.parent if package.submodule_search_locations else place
        # -P: the folder that the program was started in is no place to import from.
        found.append(Reader("the package ncu-report", (sys.executable, "-P", str(_SCRIPT)), (str(folder),), False))
    program = shutil.which("ncu") or shutil.which("nv-nsight-cu-cli")
    if program is not None:
        found.append(Reader(program, (program, "--import"), _OPTIONS, True))
    return found


class NcuReport:
    """Reads a binary report where NVIDIA's software is installed; without it the file is refused with the command."""

    name = "ncu-rep"
    title = "Nsight Compute, binary report (read by NVIDIA's own software, if installed)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether these are the first bytes of a report, and something to read it is there."""
        return opened.magic.startswith(_MAGIC) and bool(readers())

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Export the report to CSV and read that.

        Raises
        ------
        InputRefusedError
            If every way fails or takes too long, or what comes out can't be read.
        """
        folder = get_settings().spool
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ncu-", dir=folder)))
            csv, way = _export(readers(), opened, where)
            from analysis.ingest.source.opening import opened_files

            exported = stack.enter_context(opened_files(csv, name=opened.name, spool=where))[0]
            reader = next((form for form in (NcuWide(), NcuLong()) if form.sniff(exported)), None)
            if reader is None:
                raise InputRefusedError(
                    f"{way.name} gave no table for the report", f"Export it with `{BY_HAND}`.", Where(opened.name)
                )
            parsed = reader.parse(exported, hints)
        report = {**parsed.report, "exported_by": way.name, "exported_as": reader.name}
        return replace(parsed, format=self.name, report=report)


def _export(ways: Sequence[Reader], opened: Opened, folder: Path) -> tuple[Path, Reader]:
    """Try one way after the other; the report gets a name of its own, so that no user's name reaches a command."""
    source, target = folder / "report.ncu-rep", folder / "report.csv"
    source.symlink_to(opened.path.resolve())
    faults = []
    for way in ways:
        fault = _run(way, source, target)
        if fault is None:
            return target, way
        faults.append(f"{way.name} {fault}")
    raise InputRefusedError(
        f"the report could not be exported: {'; '.join(faults)[:500] or 'nothing is installed that reads it'}",
        "Use a version as new as the ncu that wrote the report (`pip install --upgrade ncu-report`), or export it "
        f"on the machine that did with `{BY_HAND}`.",
        Where(opened.name),
    )


def _run(way: Reader, source: Path, target: Path) -> str | None:
    """Export once; return what went wrong."""
    command = [*way.before, str(source), *([] if way.prints else [str(target)]), *way.after]
    try:
        with target.open("wb") as out:
            done = subprocess.run(  # noqa: S603 - a fixed program with fixed options
                command, stdout=out if way.prints else subprocess.DEVNULL, stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"took longer than {_SECONDS // 60} minutes"
    except OSError as error:
        return f"can't be run ({error.strerror})"
    if done.returncode or not target.stat().st_size:
        said = done.stderr.decode("utf-8", errors="replace").strip().splitlines()
        return f"says: {said[-1].strip()[:200]}" if said else f"ended with code {done.returncode}"
    return None
