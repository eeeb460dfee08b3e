"""Text from files made harmless for Streamlit's Markdown: kernel and workload names are hostile until escaped."""

from __future__ import annotations

import re

from analysis.numbers import shorten, visible
from analysis.report.markup import SPECIAL, plain

__all__ = ["plain", "sentence", "unbroken"]

_UNIT = re.compile(r"(\d) (%|x\b|min\b)")
_TWO_HYPHENS = re.compile(r"(?<=\s)(?:\\?-){2}(?=\s)")
_CODE = re.compile(r"(`[^`]*`)")


def sentence(text: str, limit: int = 1200) -> str:
    """Make a sentence of ours that may hold names of theirs fit for Markdown; `code` spans stay code.

    What stands between backticks is shown literally by Markdown, so a stray backtick in a name can change which part
    is code, but not let anything act.
    """
    parts = _CODE.split(shorten(visible(text), limit))
    return "".join(
        part if part.startswith("`") and part.endswith("`") and len(part) > 1 else _escape(part) for part in parts
    )


def unbroken(text: str) -> str:
    r"""Keep a figure and its unit on one line.

    Examples
    --------
    >>> unbroken("off by **6.97 %** or 1.34 x in 71 min").count("\xa0")
    3
    """
    return _UNIT.sub("\\1\xa0\\2", text)


def _escape(text: str) -> str:
    # Streamlit draws a dash for two hyphens in running text; in a command they separate options from the program.
    return _TWO_HYPHENS.sub("`--`", SPECIAL.sub(r"\\\1", text))
