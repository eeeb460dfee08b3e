"""Saved mappings of tables that no format claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from analysis.errors import NotFoundError
from analysis.store.database import Database


def rows(database: Database) -> list[dict[str, Any]]:
    """Return name, kind, header and mapping of all, in the order of names."""
    table = database.query("SELECT name, kind, header, mapping FROM table_mapping ORDER BY name")
    return [
        {"name": str(row["name"]), "kind": str(row["kind"]), "header": [str(name) for name in row["header"]],
         **json.loads(str(row["mapping"]))}
        for row in table.to_dict("records")
    ]  # fmt: skip


def put(database: Database, name: str, kind: str, header: Sequence[str], mapping: dict[str, Any]) -> None:
    """Save a mapping; one of the same name is replaced."""
    with database.write() as cursor:
        cursor.execute("DELETE FROM table_mapping WHERE name = ?", [name])
        cursor.execute(
            "INSERT INTO table_mapping (name, kind, header, mapping) VALUES (?, ?, ?, ?)",
            [name, kind, list(header), json.dumps(mapping)],
        )


def remove(database: Database, name: str) -> None:
    """Take a mapping out; what was loaded with it stays.

    Raises
    ------
    NotFoundError
        If there is none of this name.
    """
    if not database.scalar("SELECT count(*) FROM table_mapping WHERE name = ?", [name]):
        raise NotFoundError(f"there is no mapping {name!r}", "`stallscope mappings list` names those that are saved.")
    with database.write() as cursor:
        cursor.execute("DELETE FROM table_mapping WHERE name = ?", [name])
