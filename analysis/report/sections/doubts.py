"""What the data checks found."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.interference.finding import Finding, counted
from analysis.report.document import Block, Section, Text
from analysis.report.table import column, table

_COLUMNS = (
    column("severity", "severity"),
    column("where", "where"),
    column("count", "count", "count"),
    column("sentence", "finding", "prose"),
    column("rule", "rule"),
)


def section(findings: Sequence[Finding]) -> Section:
    """Make the section; an empty list of findings is a finding too."""
    if not findings:
        blocks: tuple[Block, ...] = (Text(sentences=("The checks of the data found nothing to doubt.",)),)
    else:
        rows = [finding.to_dict() for finding in findings]
        blocks = (table("Findings of the data checks", rows, _COLUMNS),)
    return Section(key="checks", title="Which numbers to doubt", blocks=blocks)


def sentence(findings: Sequence[Finding]) -> str | None:
    """Say the gravest in one sentence; None when nothing was found."""
    if not findings:
        return None
    grave = [finding for finding in findings if finding.severity == "error"]
    if grave:
        return f"Handle with care: {grave[0].sentence}"
    return f"The data checks have {counted(len(findings), 'remark')}; none of them forbids using the figures."
