"""Reads a database from end to end, and says which of its tables can't be read and what no longer fits together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from analysis.errors import StallScopeError
from analysis.store.database import Database, damage
from analysis.store.loader import SOURCE_TABLES


@dataclass(frozen=True)
class TableState:
    """One table.

    Attributes
    ----------
    name : str
        The table.
    rows : int or None
        Its rows, every value of which was read; None where that was not possible.
    fault : str
        What stands in the way; blank where nothing does.
    """

    name: str
    rows: int | None
    fault: str = ""


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    tables : tuple of TableState
        Every table.
    loose : tuple of str
        Sentences on rows that belong to nothing.
    """

    tables: tuple[TableState, ...]
    loose: tuple[str, ...]

    @property
    def broken(self) -> list[str]:
        """Names of the tables that can't be read whole."""
        return [table.name for table in self.tables if table.fault]

    @property
    def sentence(self) -> str:
        """Everything in one sentence."""
        whole = [table for table in self.tables if not table.fault]
        rows = sum(table.rows or 0 for table in whole)
        if not self.broken and not self.loose:
            return f"all {len(whole)} tables were read from end to end, {rows:,} rows, and fit together"
        said = []
        if self.broken:
            first = next(table for table in self.tables if table.fault)
            said.append(
                f"{len(self.broken)} of {len(self.tables)} tables can't be read whole: {', '.join(self.broken)} "
                f"({first.fault}); the other {len(whole)} can, {rows:,} rows"
            )
        return "; ".join([*said, *self.loose])


#: Rows that name something which must be there: table, column, and where that stands.
_BELONGS = (
    *((table, "source_id", "source") for table in SOURCE_TABLES if table != "source"),
    ("kernel_value", "kernel_id", "kernel"),
    ("kernel_value", "label_id", "kernel_label"),
    ("kernel_rule", "kernel_id", "kernel"),
    ("kernel", "profile_id", "profile"),
    ("profile", "workload_id", "workload"),
    ("member", "run_id", "run"),
    ("member", "workload_id", "workload"),
    ("solo", "workload_id", "workload"),
    ("feature", "workload_id", "workload"),
)


def verify(path: Path) -> Verification:
    """Read every value of every table.

    Parameters
    ----------
    path : Path
        The database; it is opened for reading only.

    Returns
    -------
    Verification
        What can be read and what can't.

    Raises
    ------
    StallScopeError
        If it can't even be opened.
    """
    with Database(path, read_only=True) as database:
        names = [
            str(name) for name in database.query("SELECT table_name FROM duckdb_tables() ORDER BY 1")["table_name"]
        ]
    tables = tuple(_read(path, name) for name in names)
    if any(table.fault for table in tables):
        return Verification(tables, ())
    with Database(path, read_only=True) as database:
        counts = {
            (table, column): int(
                database.scalar(
                    f"SELECT count(*) FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM {of} o "
                    f"WHERE o.{column} = t.{column})"
                )
            )
            for table, column, of in _BELONGS
        }
    loose = tuple(
        f"{count:,} {'row' if count == 1 else 'rows'} of {table} {'belongs' if count == 1 else 'belong'} to no {of}"
        for (table, column, of) in _BELONGS
        if (count := counts[table, column])
    )
    return Verification(tables, loose)


def _read(path: Path, name: str) -> TableState:
    """Read a table through a connection of its own: a damaged block may end the one that meets it."""
    try:
        with Database(path, read_only=True) as database:
            found = database.query(f'SELECT count(*) AS rows, bit_xor(hash(t)) AS all_of_it FROM "{name}" t')
            return TableState(name, int(found["rows"].iloc[0]))
    except StallScopeError as error:
        return TableState(name, None, error.what)
    except duckdb.Error as error:
        return TableState(name, None, damage(error, path).what)
