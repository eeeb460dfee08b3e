"""Text from files made harmless for Streamlit's Markdown: kernel and workload names are hostile until escaped."""

from __future__ import annotations

import re

from analysis.numbers import shorten, visible

#: Everything that Markdown, its extensions (mathematics, tables, strikethrough), Streamlit's directives (``:red[x]``,
#: ``:material/x:``) and automatic links give a meaning to.
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&@^=/])")
_UNIT = re.compile(r"(\d) (%|x\b|min\b)")
_CODE = re.compile(r"(`[^`]*`)")


def plain(text: object, limit: int = 80) -> str:
    r"""Make a name fit for a line of Markdown: escaped, invisible characters shown, cut in the middle when too long.

    Parameters
    ----------
    text : object
        Any value, such as a kernel's name.
    limit : int
        Longest text kept, in characters of the original.

    Examples
    --------
    >>> plain("**bold** <script>")
    '\\*\\*bold\\*\\* \\<script\\>'
    """
    return _SPECIAL.sub(r"\\\1", shorten(visible(str(text)), limit))


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
    return _SPECIAL.sub(r"\\\1", text)
