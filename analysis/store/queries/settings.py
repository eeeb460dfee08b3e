"""Settings that live in the database and outlast a restart: small values under a name."""

from __future__ import annotations

from analysis.store.database import Database


def get(database: Database, name: str) -> str | None:
    """Return a setting, or None when it was never set."""
    value = database.scalar("SELECT value FROM setting WHERE name = ?", [name])
    return None if value is None else str(value)


def put(database: Database, name: str, value: str) -> None:
    """Set a setting."""
    with database.write() as cursor:
        cursor.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [name, value],
        )
