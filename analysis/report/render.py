"""Renders a report by what it is wanted as: HTML, JSON, CSV, Parquet or PDF."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.errors import InputRefusedError, StallScopeError, UsageError, Where
from analysis.report.document import SCHEMA_VERSION, ReportDocument
from analysis.report.page import to_html
from analysis.report.parquet import to_parquet
from analysis.report.spreadsheet import to_csv

INSTALL = "pip install 'stallscope[pdf]'"


def to_pdf(document: ReportDocument) -> bytes:
    """Render the report as PDF on A4.

    Parameters
    ----------
    document : ReportDocument
        The report; names in it may be hostile: nothing is fetched, no script is run.

    Raises
    ------
    StallScopeError
        If WeasyPrint, or the Pango that it draws text with, is not there.
    """
    printer = _weasyprint()
    page = printer.HTML(string=to_html(document, still=True), url_fetcher=_refuse)
    # The time of the document, not of the machine: the same report gives the same file.
    made: bytes = page.write_pdf(pdf_identifier=b"stallscope", custom_metadata=False)
    return made


def available() -> bool:
    """Say whether a PDF can be made here."""
    try:
        _weasyprint()
    except StallScopeError:
        return False
    return True


def _weasyprint() -> Any:
    try:
        import weasyprint
    except (ImportError, OSError) as error:  # OSError: the library is there, Pango is not
        lacks = "Pango" if isinstance(error, OSError) else "WeasyPrint"
        raise StallScopeError(
            f"PDF needs {lacks}, which is not installed",
            f"Install it with `{INSTALL}`" + (" and your system's package of Pango." if lacks == "Pango" else "."),
        ) from error
    # It complains of every property of screens that paper lacks.
    logging.getLogger("weasyprint").setLevel(logging.ERROR)
    return weasyprint


def _refuse(url: str, *_: object, **__: object) -> Any:
    """Refuse every address: a report is complete in itself."""
    raise ValueError(f"a report fetches nothing, not {url[:80]}")


__all__ = ["FORMATS", "from_json", "to_csv", "to_html", "to_json", "to_parquet", "to_pdf", "write"]


def to_json(document: ReportDocument) -> str:
    """Return the document itself."""
    return document.model_dump_json(indent=1) + "\n"


def from_json(text: str | bytes) -> ReportDocument:
    """Read a JSON report back, to render it again.

    Raises
    ------
    InputRefusedError
        If it is no report, or one of another schema version.
    """
    try:
        return ReportDocument.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the document"
        raise InputRefusedError(
            f"this is not a StallScope report of schema version {SCHEMA_VERSION} ({place}: {first['msg']})",
            "Make it again with `stallscope report --out FILE.json`.",
        ) from error


#: File endings and what they are rendered by.
FORMATS: Mapping[str, Callable[[ReportDocument], str | bytes]] = {
    ".html": to_html,
    ".json": to_json,
    ".csv": to_csv,
    ".parquet": to_parquet,
    ".pdf": to_pdf,
}


def as_bytes(document: ReportDocument, ending: str) -> bytes:
    """Return the report as a file's content; `ending` is one of `FORMATS`."""
    content = FORMATS[ending](document)
    if isinstance(content, bytes):
        return content
    # Without the mark, spreadsheets read UTF-8 as the local code page.
    return (b"\xef\xbb\xbf" if ending == ".csv" else b"") + content.encode("utf-8")


def renderer(path: Path) -> Callable[[ReportDocument], str | bytes]:
    """Return what renders for a file's ending.

    Raises
    ------
    UsageError
        If the ending is none of `FORMATS`.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        shown = (
            f"a report can't be written as {ending!r}" if ending else f"{path.name} has no ending that says what it is"
        )
        raise UsageError(shown, f"End the file name in one of {', '.join(FORMATS)}.")
    return FORMATS[ending]


def write(document: ReportDocument, path: Path) -> int:
    """Write the report to a file; the ending decides the form, and a failure leaves an older file as it was.

    Parameters
    ----------
    document : ReportDocument
        The report.
    path : Path
        Where to; its ending is one of `FORMATS`.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    UsageError
        If the ending is unknown.
    StallScopeError
        If the file can't be written.
    """
    renderer(path)
    content = as_bytes(document, path.suffix.lower())
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as handle:
            temporary = Path(handle.name)
            handle.write(content)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise StallScopeError(
            f"the report can't be written: {error.strerror or error}",
            "Name a file in a folder that exists and that you may write to.",
            Where(file=str(path)),
        ) from error
    return len(content)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
