"""What `stallscope doctor` says of one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line.

    Attributes
    ----------
    what : str
        What was looked at.
    status : {"ok", "warning", "problem"}
        ``warning``: something can't be done here. ``problem``: StallScope itself won't work.
    sentence : str
        What was found.
    cure : str
        What to do; blank where nothing is.
    """

    what: str
    status: Status
    sentence: str
    cure: str = ""


def ok(what: str, sentence: str) -> Finding:
    """Say that something is in order."""
    return Finding(what, "ok", sentence)


def warning(what: str, sentence: str, cure: str) -> Finding:
    """Say that something can't be done."""
    return Finding(what, "warning", sentence, cure)


def problem(what: str, sentence: str, cure: str) -> Finding:
    """Say that StallScope won't work."""
    return Finding(what, "problem", sentence, cure)
