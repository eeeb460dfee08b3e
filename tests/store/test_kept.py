"""Queries read the tables without what the user left out, not the tables themselves."""

from __future__ import annotations

import re
from pathlib import Path

import analysis.store.queries

#: Queries that show the files as they are, or that decide or look at what is left out.
RAW = {"exclusions.py", "left_out.py", "sources.py"}


def test_figures_read_only_what_counts() -> None:
    wrong = []
    for path in sorted(Path(analysis.store.queries.__file__).parent.glob("*.py")):
        if path.name not in RAW:
            text = path.read_text(encoding="utf-8")
            wrong += [
                (path.name, found) for found in re.findall(r"(?:FROM|JOIN) (?:run|solo|feature|telemetry)\b.*", text)
            ]
            # A member counts only with its run.
            wrong += [
                (path.name, found)
                for found in re.findall(r"(?:FROM|JOIN) member \w+ .*", text)
                if "{counted.run(" not in found and "o JOIN workload" not in found
            ]
    assert wrong == []
