"""A table as LaTeX, to be put into a paper: booktabs, figures as on the page, every special character escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.numbers import format_value
from analysis.report import comparison
from analysis.report.document import Cell, Column, Table


def to_latex(table: Table, *, label: str = "tab:stallscope") -> str:
    """Return a table as a LaTeX environment that needs the package booktabs alone.

    Parameters
    ----------
    table : Table
        Title and caption go into the caption.
    label : str
        What the text refers to it by.
    """
    places = {one.key: index for index, one in enumerate(table.columns)}
    shown = table.shown()
    cells = [[escape(_cell(row, index, one, places)) for index, one in shown] for row in table.rows]
    frame = pd.DataFrame(cells, columns=[escape(one.header) for _, one in shown])
    align = "".join("l" if one.kind == "text" else "r" for _, one in shown)
    words = escape(". ".join(part.rstrip(".") for part in (table.title, table.caption) if part) + ".")
    return str(frame.to_latex(index=False, escape=False, column_format=align, caption=words, label=label))


def comparison_latex(result: Mapping[str, Any]) -> str:
    """Return a stored comparison of predictors as LaTeX."""
    name = f"{result['dataset']}-{result['protocol']}"
    plain = "".join(character if character.isalnum() else "-" for character in name)
    table = comparison.evaluation_table(result)
    lacking = comparison.missing_inputs(result)
    caption = " ".join(part for part in (table.caption, lacking) if part)
    return to_latex(table.model_copy(update={"caption": caption}), label=f"tab:{plain}")


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is; characters that can't be printed are left out."""
    kept = (character if character.isprintable() else " " for character in text)
    return "".join(_SPECIAL.get(character, character) for character in kept)


def _cell(row: Sequence[Cell], index: int, shown: Column, places: Mapping[str, int]) -> str:
    value = format_value(row[index], shown.kind)
    ends = [row[places[key]] for key in (shown.low, shown.high) if key is not None and key in places]
    if len(ends) == 2 and None not in ends:
        return f"{value} ({' to '.join(format_value(end, shown.kind) for end in ends)})"
    return value
