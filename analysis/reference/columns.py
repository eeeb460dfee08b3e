"""The vocabulary of columns: what each column of a table is called, in which unit it is, and what it means.

The table is ``data/columns.csv``, one line an entry. Pages read it by `analysis.ui.shell.columns.configured`, reports
and the screens of the command line by `analysis.report.table.columns_of`, the glossary and the description of REST
directly. An entry is named by the frame's column, ``slowdown``; where one column means several things, by the column
and a variant, ``slowdown/job``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import cast

from analysis.numbers import UNITS, Kind
from analysis.settings import asset

#: Between a column and the variant of its meaning.
_VARIANT = "/"

#: First words of titles that keep their capital inside a sentence.
_PROPER = frozenset({"Jain's"})


@dataclass(frozen=True)
class ColumnTerm:
    """What is said of a column, wherever it is shown.

    Attributes
    ----------
    name : str
        The frame's column, with a variant behind a slash where the column has several meanings.
    title : str
        Header without the unit, with a capital.
    unit : str
        Unit of the figures, or nothing.
    kind : str
        How a cell is printed; see `analysis.numbers.Kind`.
    format : str
        How a page prints the figure or the time, where the kind alone doesn't say it.
    width : str
        ``small``, ``medium``, ``large``, or nothing for as wide as the cells.
    help : str
        What the column means, in one sentence.
    """

    name: str
    title: str
    unit: str
    kind: Kind
    format: str
    width: str
    help: str

    @property
    def key(self) -> str:
        """The frame's column."""
        return self.name.partition(_VARIANT)[0]

    @property
    def header(self) -> str:
        """The title with its unit, as a page shows it."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def label(self) -> str:
        """The title as a report and the command line write it, which set the unit of the kind behind it themselves."""
        first = self.title.split()[0].rstrip(",")
        name = first in _PROPER or len(first) == 1 or first[1:] != first[1:].lower()
        title = self.title if name else self.title[0].lower() + self.title[1:]
        return f"{title}, {self.unit}" if self.unit and self.unit != UNITS[self.kind] else title


@lru_cache(maxsize=1)
def vocabulary() -> Mapping[str, ColumnTerm]:
    """Return every entry by its name.

    Examples
    --------
    >>> vocabulary()["worst"].header, vocabulary()["worst"].label
    ('Worst S, x', 'worst S')
    """
    with asset("data", "columns.csv").open(encoding="utf-8", newline="") as file:
        terms = [
            ColumnTerm(
                name=row["name"], title=row["title"], unit=row["unit"], kind=cast(Kind, row["kind"]),
                format=row["format"], width=row["width"], help=row["help"],
            )
            for row in csv.DictReader(file)
        ]  # fmt: skip
    return MappingProxyType({term.name: term for term in terms})


def term(name: str) -> ColumnTerm:
    """Return one entry.

    Raises
    ------
    KeyError
        If the vocabulary has no such entry: a mistake in the code that asks.
    """
    return vocabulary()[name]


def terms(names: Iterable[str]) -> list[ColumnTerm]:
    """Return some entries, in their order."""
    return [term(name) for name in names]
