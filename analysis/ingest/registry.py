"""The formats that StallScope reads, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from analysis.ingest.contract.format import Format, Opened
from analysis.ingest.formats.ncu.long import NcuLong
from analysis.ingest.formats.ncu.summary import NcuSummary
from analysis.ingest.formats.ncu.wide import NcuWide
from analysis.ingest.table_formats import TABLE_FORMATS
from analysis.ingest.text.refusals import explain
from analysis.ingest.tool_formats import LOG_FORMATS, TOOL_FORMATS

#: The particular ones first: a format that asks for fewer signs comes after those that ask for more.
FORMATS: tuple[Format, ...] = (NcuLong(), NcuSummary(), NcuWide(), *TOOL_FORMATS, *TABLE_FORMATS, *LOG_FORMATS)


def choose(opened: Opened) -> Format:
    """Return the format that claims a file.

    Parameters
    ----------
    opened : Opened
        The file.

    Returns
    -------
    Format
        The first that recognises the content.

    Raises
    ------
    InputRefusedError
        If none does; the sentence says what the file is instead.
    """
    for candidate in FORMATS:
        if candidate.sniff(opened):
            return candidate
    raise explain(opened)
