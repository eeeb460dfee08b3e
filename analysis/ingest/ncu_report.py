"""Binary reports of Nsight Compute (``.ncu-rep``), exported to CSV by the ``ncu`` that is installed, and then read.

NVIDIA's tool is under its own proprietary licence: nothing of it ships with StallScope, and it only runs where the user
installed it, as the program ``ncu`` or by the package ``ncu-report``.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from analysis.errors import InputRefusedError, Where
from analysis.ingest.format import Hints, Opened
from analysis.ingest.ncu_long import NcuLong
from analysis.ingest.ncu_wide import NcuWide
from analysis.settings import get_settings
from analysis.store.parsed import Parsed

_MAGIC = b"NVR\x00"
_SECONDS = 600
_OPTIONS = ("--csv", "--page", "raw", "--print-units", "base")


def exporter() -> str | None:
    """Return the program that exports reports, None where none is installed."""
    found = shutil.which("ncu") or shutil.which("nv-nsight-cu-cli")
    if found is not None:
        return found
    package = find_spec("ncu_report")
    if package is None or package.origin is None:
        return None
    # The package holds the reader of reports; some of its builds bring the program along.
    beside = Path(package.origin).parent
    return next((str(path) for path in (beside / "ncu", beside / "bin" / "ncu") if path.is_file()), None)


class NcuReport:
    """Reads a binary report where NVIDIA's tool is installed; without it the file stays refused with the command."""

    name = "ncu-rep"
    title = "Nsight Compute, binary report (read by the installed ncu)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether these are the first bytes of a report, and a program to export it is there."""
        return opened.magic.startswith(_MAGIC) and exporter() is not None

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Export the report to CSV and read that.

        Raises
        ------
        InputRefusedError
            If the export fails or takes too long, or what it gives can't be read.
        """
        program = exporter()
        if program is None:
            raise InputRefusedError("no `ncu` is installed", "Install Nsight Compute.", Where(opened.name))
        folder = get_settings().spool
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            where = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ncu-", dir=folder)))
            csv = _export(program, opened, where)
            from analysis.ingest.opening import opened_files

            exported = stack.enter_context(opened_files(csv, name=opened.name, spool=where))[0]
            reader = next((form for form in (NcuWide(), NcuLong()) if form.sniff(exported)), None)
            if reader is None:
                raise InputRefusedError(
                    "the installed ncu gave no table for the report",
                    "Export it by hand with `ncu --import REPORT.ncu-rep --csv --page raw --print-units base`.",
                    Where(opened.name),
                )
            parsed = reader.parse(exported, hints)
        report = {**parsed.report, "exported_by": program, "exported_as": reader.name}
        return replace(parsed, format=self.name, report=report)


def _export(program: str, opened: Opened, folder: Path) -> Path:
    """Run the export; the report is given under a name of its own, so that no name of a user's reaches a command."""
    source, target = folder / "report.ncu-rep", folder / "report.csv"
    source.symlink_to(opened.path.resolve())
    try:
        with target.open("wb") as out:
            done = subprocess.run(  # noqa: S603 - a fixed program with fixed options
                [program, "--import", str(source), *_OPTIONS],
                stdout=out, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise InputRefusedError(
            f"exporting the report took longer than {_SECONDS // 60} minutes",
            "Profile fewer launches.",
            Where(opened.name),
        ) from error
    except OSError as error:
        raise InputRefusedError(
            f"{program} can't be run ({error.strerror})",
            "Repair the installation of Nsight Compute.",
            Where(opened.name),
        ) from error
    if done.returncode or not target.stat().st_size:
        said = done.stderr.decode("utf-8", errors="replace").strip().splitlines()
        raise InputRefusedError(
            f"the installed ncu could not export the report{': ' + said[-1][:200] if said else ''}",
            "Use an ncu as new as the one that wrote the report, or export it on the machine that did.",
            Where(opened.name),
        )
    return target
