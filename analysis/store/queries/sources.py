"""What is in the database: data sets, sources, workloads, rejected rows."""

from __future__ import annotations

import pandas as pd

from analysis.errors import NotFoundError
from analysis.store import kept
from analysis.store.database import Database
from analysis.store.filters import Filter


def datasets(database: Database) -> pd.DataFrame:
    """Return one row a data set: name, title, simulated, licence, citation, sources, gpus, profiles, runs."""
    return database.query(
        f"""SELECT d.name, d.title, d.simulated, d.licence, d.citation,
                  (SELECT count(*) FROM source s WHERE s.dataset = d.name) AS sources,
                  (SELECT count(*) FROM workload w WHERE w.dataset = d.name) AS workloads,
                  (SELECT count(*) FROM {kept.PROFILE} p JOIN workload w USING (workload_id)
                   WHERE w.dataset = d.name) AS profiles,
                  (SELECT count(*) FROM {kept.RUN} r JOIN source s USING (source_id) WHERE s.dataset = d.name) AS runs
           FROM dataset d ORDER BY d.simulated, d.name"""
    )


def simulated_names(database: Database) -> set[str]:
    """Return the names of the simulated data sets and of the files in them."""
    found = database.query(
        "SELECT name FROM dataset WHERE simulated UNION SELECT file_name AS name FROM source WHERE simulated"
    )
    return set(found["name"].astype(str))


def is_simulated(database: Database, dataset: str) -> bool | None:
    """Say whether a data set is simulated; None where there is none of that name."""
    found = database.scalar("SELECT simulated FROM dataset WHERE name = ?", [dataset])
    return None if found is None else bool(found)


def sources(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a source, newest first, with its counts and its report as JSON."""
    where, values = (chosen or Filter()).where("dataset", "source_id")
    return database.query(f"SELECT * FROM source WHERE {where} ORDER BY source_id DESC", values)


def rejected_rows(database: Database, source_id: int) -> pd.DataFrame:
    """Return the rejected rows of a source: line, column, reason, text."""
    found = database.query(
        'SELECT "line", "column", reason, "text" FROM rejected_row WHERE source_id = ? ORDER BY "line"', [source_id]
    )
    # A fault of the whole row has no column: None, and not pandas' word for a missing number.
    return found.assign(column=found["column"].astype(object).where(found["column"].notna(), None))


def set_aside_rows(database: Database, source_id: int) -> pd.DataFrame:
    """Return the rows of a source that a rule of its format set aside: rule, line, text."""
    return database.query(
        'SELECT rule, "line", "text" FROM set_aside_row WHERE source_id = ? ORDER BY "line", rule', [source_id]
    )


def gpus_of(database: Database, source_id: int) -> list[str]:
    """Return the GPUs that a source is about, sorted."""
    found = database.query(
        """SELECT DISTINCT gpu FROM (
             SELECT p.gpu FROM kernel k JOIN profile p USING (profile_id) WHERE k.source_id = $s
             UNION ALL SELECT gpu FROM run WHERE source_id = $s UNION ALL SELECT gpu FROM solo WHERE source_id = $s
             UNION ALL SELECT gpu FROM feature WHERE source_id = $s
             UNION ALL SELECT gpu FROM telemetry WHERE source_id = $s) WHERE gpu IS NOT NULL ORDER BY gpu""",
        {"s": source_id},
    )
    return [str(name) for name in found["gpu"]]


def workloads(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return one row a workload with its attributes and what is known of it.

    Returns
    -------
    pd.DataFrame
        workload_id, dataset, workload, model, family, training_data, batch_size, precision, phase, gpus (list),
        profiles, solos, runs.
    """
    where, values = (chosen or Filter()).where("dataset", "workload", "family", "phase", "batch_size", "precision")
    return database.query(
        f"""SELECT * FROM (
              SELECT w.workload_id, w.dataset, w.name AS workload, w.model, w.family, w.training_data, w.batch_size,
                     w."precision", w.phase,
                     (SELECT list_sort(list_distinct(flatten(list(g)))) FROM (
                          SELECT list(gpu) AS g FROM profile p WHERE p.workload_id = w.workload_id
                          UNION ALL SELECT list(gpu) FROM solo s WHERE s.workload_id = w.workload_id
                          UNION ALL SELECT list(r.gpu) FROM member m JOIN run r USING (run_id)
                                    WHERE m.workload_id = w.workload_id)) AS gpus,
                     (SELECT count(*) FROM {kept.PROFILE} p WHERE p.workload_id = w.workload_id) AS profiles,
                     (SELECT count(*) FROM {kept.SOLO} s WHERE s.workload_id = w.workload_id) AS solos,
                     (SELECT count(DISTINCT m.run_id) FROM member m JOIN {kept.RUN} r USING (run_id)
                      WHERE m.workload_id = w.workload_id) AS runs
              FROM workload w) WHERE {where} ORDER BY dataset, workload""",
        values,
    )


def require_dataset(database: Database, name: str) -> str:
    """Return the name if the data set is loaded.

    Raises
    ------
    NotFoundError
        With the names that are there.
    """
    known = [str(value) for value in database.query("SELECT name FROM dataset ORDER BY name")["name"]]
    if name not in known:
        there = ", ".join(known) if known else "none yet"
        raise NotFoundError(
            f"there is no data set {name!r} in the database (loaded: {there})",
            "Load it with `stallscope datasets load NAME` or import files with `--dataset`.",
        )
    return name
