"""Reads a file of sets of jobs: a row a set, or a row a job of a set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis.errors import InputRefusedError

#: Columns that name the set of a row, and its job, where a row is a job.
_SET, _JOB = ("set", "set_id", "run_id", "run", "id"), ("job", "workload", "name")

#: Sets that are read at most.
MOST_SETS = 100_000


def read_sets(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Read the sets of a CSV or Parquet file.

    Parameters
    ----------
    path : Path
        A row a job: a column ``set`` and a column ``job`` (or ``workload``). A row a set: columns ``job1``, ``job2``
        and so on, or ``jobs`` with the names joined by ``+``; a column ``set`` may name it.

    Returns
    -------
    list of (str, tuple of str)
        Name and jobs of each set, in the order of the file.

    Raises
    ------
    InputRefusedError
        If the file can't be read, or holds no set.
    """
    try:
        if path.suffix.lower() == ".parquet":
            table = pd.read_parquet(path)
        else:
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, pd.errors.ParserError) as error:
        said = " ".join(str(error).split())[:120]
        raise InputRefusedError(
            f"{path} can't be read as sets of jobs: {said}", "Give a CSV or a Parquet file."
        ) from error
    table.columns = [str(name).strip().lower() for name in table.columns]
    table = table.astype(object).where(table.notna(), "").astype(str)
    named = next((name for name in _SET if name in table), None)
    job = next((name for name in _JOB if name in table), None)
    wide = sorted(
        (name for name in map(str, table.columns) if name.startswith("job") and name[3:].lstrip("_").isdigit()),
        key=lambda name: int(name[3:].lstrip("_")),
    )
    found: list[tuple[str, tuple[str, ...]]]
    if wide or "jobs" in table:
        names = table[named] if named else pd.Series([str(row) for row in range(1, len(table) + 1)])
        cells = table[wide].to_numpy().tolist() if wide else [text.split("+") for text in table["jobs"]]
        found = [
            (str(name), tuple(text.strip() for text in row if text.strip()))
            for name, row in zip(names, cells, strict=True)
        ]
    elif named and job:
        groups = table.groupby(named, sort=False)[job]
        found = [(str(name), tuple(text.strip() for text in part if text.strip())) for name, part in groups]
    else:
        raise InputRefusedError(
            f"{path} has neither columns job1, job2 nor a column set beside a column job",
            "Write one row a set (job1,job2,job3), or one row a job (set,job).",
        )
    if not found:
        raise InputRefusedError(f"{path} holds no set of jobs", "Write one row a set (job1,job2).")
    if len(found) > MOST_SETS:
        raise InputRefusedError(
            f"{path} holds {len(found):,} sets, more than {MOST_SETS:,}", "Split it into several files."
        )
    return found
