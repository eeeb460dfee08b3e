"""The record of long work: what was asked, how far it is, and what came of it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.store.database import Database

#: States in which nothing happens to a job any more.
FINISHED = ("done", "failed", "cancelled")


def insert(database: Database, job_id: str, kind: str, request: str) -> None:
    """Record a new job as queued; `request` is JSON."""
    with database.write(content=False) as cursor:
        cursor.execute(
            "INSERT INTO job (job_id, kind, request, state, message) VALUES (?, ?, ?, 'queued', 'waiting')",
            [job_id, kind, request],
        )


def update(
    database: Database, job_id: str, *, state: str, fraction: float, message: str, result: str | None = None
) -> None:
    """Write a job's progress or, in one of the `FINISHED` states, its end; `result` is JSON."""
    with database.write(content=False) as cursor:
        cursor.execute(
            """UPDATE job SET state = $state, fraction = $fraction, message = $message, result = $result,
                   finished_at = CASE WHEN $finished THEN current_timestamp ELSE NULL END
               WHERE job_id = $job_id""",
            {
                "state": state,
                "fraction": fraction,
                "message": message,
                "result": result,
                "finished": state in FINISHED,
                "job_id": job_id,
            },
        )


def get(database: Database, job_id: str) -> dict[str, Any] | None:
    """Return one job as a mapping of the table's columns, or None."""
    frame = database.query("SELECT * FROM job WHERE job_id = ?", [job_id])
    return None if frame.empty else _record(frame)


def latest(database: Database, kind: str) -> dict[str, Any] | None:
    """Return the newest job of a kind, or None."""
    frame = database.query("SELECT * FROM job WHERE kind = ? ORDER BY created_at DESC, rowid DESC LIMIT 1", [kind])
    return None if frame.empty else _record(frame)


def recent(database: Database, limit: int = 20) -> pd.DataFrame:
    """Return the newest jobs: job_id, kind, state, fraction, message, created_at, finished_at."""
    return database.query(
        """SELECT job_id, kind, state, fraction, message, created_at, finished_at FROM job
           ORDER BY created_at DESC, rowid DESC LIMIT ?""",
        [limit],
    )


def interrupt_unfinished(database: Database, message: str) -> int:
    """Mark what an earlier process left queued or running as failed; return how many there were."""
    with database.write(content=False) as cursor:
        rows = cursor.execute(
            """UPDATE job SET state = 'failed', message = ?, finished_at = current_timestamp
               WHERE state IN ('queued', 'running') RETURNING job_id""",
            [message],
        ).fetchall()
    return len(rows)


def _record(frame: pd.DataFrame) -> dict[str, Any]:
    row = frame.iloc[0]
    return {
        str(name): None if pd.api.types.is_scalar(row[name]) and pd.isna(row[name]) else row[name] for name in row.index
    }
