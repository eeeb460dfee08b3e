"""What the data checks found."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.interference.finding import Finding, counted
from analysis.report.document import Block, Section, Text
from analysis.report.table import columns_of, table
from analysis.store.queries.exclusions import NOUNS

_COLUMNS = columns_of("severity", "where", "count", "sentence/finding", "rule")


_DECIDED = columns_of("rule", "place", "what/left_out", "condition", "why", "decided_by", "decided_on")


def section(findings: Sequence[Finding], left_out: str = "", decisions: pd.DataFrame | None = None) -> Section:
    """Make the section; an empty list of findings is a finding too.

    Parameters
    ----------
    findings : sequence of Finding
        What the checks found.
    left_out : str
        What the user left out of the figures, in a sentence; empty: nothing.
    decisions : pd.DataFrame, optional
        As `analysis.store.queries.exclusions.decisions` gives them.
    """
    if not findings:
        blocks: tuple[Block, ...] = (Text(sentences=("The checks of the data found nothing to doubt.",)),)
    else:
        rows = [finding.to_dict() for finding in findings]
        blocks = (table("Findings of the data checks", rows, _COLUMNS),)
    if left_out and decisions is not None:
        said = f"{left_out} No figure of this report counts them; they are still in the database."
        made: list[dict[str, Any]] = [
            {
                **{str(name): value for name, value in row.items()},
                "what": counted(int(row["count"]), *NOUNS[row["scope"]]),
                "decided_on": f"{row['decided_at']:%Y-%m-%d %H:%M}",
            }
            for row in decisions.astype(object).where(decisions.notna(), None).to_dict("records")
        ]
        blocks = (*blocks, Text(sentences=(said,)), table("Left out by the user", made, _DECIDED))
    return Section(key="checks", title="Which numbers to doubt", blocks=blocks)


def commands(dataset: str, decisions: pd.DataFrame) -> list[str]:
    """Return the commands that leave the same rows out again, the oldest first; rows chosen by hand are a note."""
    found = []
    for row in decisions.drop_duplicates("exclusion_id").sort_values("exclusion_id").to_dict("records"):
        condition = row["condition"] if isinstance(row["condition"], str) else ""
        if re.search(r"\d+ of \d+ rows$", condition):
            found.append(f"# on the Checks page: {condition} of rule {row['rule']}, {row['place']}")
            continue
        options = "".join(f" --where {shlex.quote(part)}" for part in condition.split(" and ") if part)
        found.append(f"stallscope check --dataset {shlex.quote(dataset)} --exclude {row['rule']}{options}")
    return list(dict.fromkeys(found))


def sentence(findings: Sequence[Finding]) -> str | None:
    """Say the gravest in one sentence; None when nothing was found."""
    if not findings:
        return None
    grave = [finding for finding in findings if finding.severity == "error"]
    if grave:
        return f"Handle with care: {grave[0].sentence}"
    return f"The data checks have {counted(len(findings), 'remark')}; none of them forbids using the figures."
