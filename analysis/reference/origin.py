"""Words for where numbers come from, measured on a GPU or made by a simulator; whoever shows some takes them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import pandas as pd

Origin: TypeAlias = Literal["measured", "simulated", "partly"]

#: Sentences that stand above numbers that were not, or not all, measured.
HEADINGS: Mapping[Origin, str] = {
    "measured": "",
    "simulated": "Simulated data: a model made these numbers, nothing was measured on a GPU.",
    "partly": "Some of these data are simulated: a model made them, nothing of those was measured on a GPU.",
}

#: How deep a document is searched for rows that say whether they are simulated.
_DEPTH = 3


def word(simulated: bool) -> str:
    """Return the participle that goes with a number: ``simulated`` or ``measured``.

    Examples
    --------
    >>> f"117 of 300 {word(True)}"
    '117 of 300 simulated'
    """
    return "simulated" if simulated else "measured"


def evidence(known: str, *, simulated: bool) -> str:
    """Return a kind of evidence in words: ``measured`` of a simulated run is ``simulated``, others stay."""
    return word(True) if simulated and known == "measured" else known


def of(document: Any, depth: int = _DEPTH) -> Origin | None:
    """Say where the numbers of a document come from, by the ``simulated`` that stand in it.

    Parameters
    ----------
    document : object
        A frame, a mapping, or rows, as commands answer with; nested or not.
    depth : int
        How many levels down to look.

    Returns
    -------
    {"measured", "simulated", "partly"} or None
        None where nothing says it.
    """
    found = set(_flags(document, depth))
    if not found:
        return None
    return "partly" if len(found) > 1 else "simulated" if found == {True} else "measured"


def heading(document: Any) -> str:
    """Return the sentence to put above a document's numbers; empty where nothing says that they are simulated."""
    return HEADINGS[of(document) or "measured"]


def _flags(document: Any, depth: int) -> list[bool]:
    if isinstance(document, pd.DataFrame):
        return [bool(value) for value in document["simulated"].dropna().unique()] if "simulated" in document else []
    if isinstance(document, Mapping):
        own = document.get("simulated")
        if isinstance(own, bool):
            return [own]
        return [flag for value in document.values() for flag in _flags(value, depth - 1)] if depth else []
    if isinstance(document, Sequence) and not isinstance(document, str | bytes) and depth:
        return [flag for item in document for flag in _flags(item, depth - 1)]
    return []
