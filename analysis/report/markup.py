"""Names from files made harmless for Markdown, wherever it is read."""

from __future__ import annotations

import re

from analysis.numbers import shorten, visible

#: Everything that Markdown, its extensions (mathematics, tables, strikethrough), Streamlit's directives (``:red[x]``,
#: ``:material/x:``) and automatic links give a meaning to.
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>$:&@^=/])")


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
    return SPECIAL.sub(r"\\\1", shorten(visible(str(text)), limit))
