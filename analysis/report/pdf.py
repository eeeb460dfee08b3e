"""A report as PDF, by WeasyPrint, which an extra brings: the page without scripts, charts drawn as still pictures."""

from __future__ import annotations

import logging
from typing import Any

from analysis.errors import StallScopeError
from analysis.report.document import ReportDocument
from analysis.report.page import to_html

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
