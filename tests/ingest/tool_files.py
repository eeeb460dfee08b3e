"""Small files in the forms of nvprof and nsys with random oddities, and what reading them must give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import ImportReport, import_file
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.store.database import Database
from analysis.store.parsed import Parsed

#: Names with everything that breaks readers: commas, templates, quotes, brackets.
KERNELS = st.lists(
    st.sampled_from(
        [
            "saxpy(int, float, float*)", "void gemm<float, (int)4>(const T1 *, int)", "ker\"nel\"()", "plain",
            "void at::native::<unnamed>::max_pool<float, int>(T2, const T1 *)", "foo; bar", "α_kernel(int)",
        ]
    ),
    min_size=1, max_size=6, unique=True,
)  # fmt: skip

ENDS = st.sampled_from(["\n", "\r\n"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


def cell(text: Any, quote: bool = False) -> str:
    """Write a cell by RFC 4180."""
    shown = str(text)
    if quote or any(sign in shown for sign in ',"\n'):
        return '"' + shown.replace('"', '""') + '"'
    return shown


def line(cells: list[Any], quote: bool = False) -> str:
    return ",".join(cell(text, quote) for text in cells)


def written(path: Path, lines: list[str], end: str = "\n", encoding: str = "utf-8") -> Path:
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def parsed(path: Path, hints: Hints | None = None) -> Parsed:
    """Read a file the way the importer does."""
    with opened_files(path, spool=path.parent / "spool") as files:
        return choose(files[0]).parse(files[0], hints or Hints())


def imported(database: Database, path: Path) -> ImportReport:
    """Load a file, and hold the account to what is in the database."""
    report = import_file(database, path)
    assert report.error is None, report.error
    assert report.rows_read == report.rows_loaded + report.rows_rejected
    assert database.scalar("SELECT count(*) FROM kernel WHERE source_id = ?", [report.source_id]) is not None
    return report
