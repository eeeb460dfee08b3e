"""What is in the database: data sets, sources, workloads, rejected rows."""

from __future__ import annotations

import pandas as pd

from analysis.errors import NotFoundError
from analysis.store import counted
from analysis.store.database import Database
from analysis.store.filters import Filter

#: What the account of a file calls StallScope's own simulator, whose model the white box shares.
OWN_SIMULATOR = "StallScope"


def datasets(database: Database) -> pd.DataFrame:
    """Return one row a data set: name, title, simulated, licence, citation, sources, gpus, profiles, runs."""
    return database.query(
        f"""SELECT d.name, d.title, d.simulated, d.licence, d.citation,
                  (SELECT count(*) FROM source s WHERE s.dataset = d.name) AS sources,
                  (SELECT count(*) FROM workload w WHERE w.dataset = d.name) AS workloads,
                  (SELECT count(*) FROM {counted.PROFILE} p JOIN workload w USING (workload_id)
                   WHERE w.dataset = d.name) AS profiles,
                  (SELECT count(*) FROM {counted.RUN} r JOIN source s USING (source_id)
                    WHERE s.dataset = d.name) AS runs
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


def own_simulator(database: Database, dataset: str) -> bool:
    """Say whether any file of a data set comes from StallScope's own simulator.

    A simulated file whose account names no simulator was read before accounts did, and counts as our own.
    """
    found = database.scalar(
        """SELECT count(*) FROM source WHERE dataset = $dataset AND simulated
           AND coalesce(json_extract_string(report, '$.simulator'), $own) = $own""",
        {"dataset": dataset, "own": OWN_SIMULATOR},
    )
    return bool(found)


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
                     (SELECT count(*) FROM {counted.PROFILE} p WHERE p.workload_id = w.workload_id) AS profiles,
                     (SELECT count(*) FROM {counted.SOLO} s WHERE s.workload_id = w.workload_id) AS solos,
                     (SELECT count(DISTINCT m.run_id) FROM member m JOIN {counted.RUN} r USING (run_id)
                      WHERE m.workload_id = w.workload_id) AS runs
              FROM workload w) WHERE {where} ORDER BY dataset, workload""",
        values,
    )


def workload_names(database: Database, dataset: str) -> pd.DataFrame:
    """Return the workloads of a data set by their id: workload, family."""
    found = database.query("SELECT workload_id, name AS workload, family FROM workload WHERE dataset = ?", [dataset])
    return found.set_index("workload_id")


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


def counts(database: Database, dataset: str) -> dict[str, int]:
    """Count what a data set holds.

    Returns
    -------
    dict of str to int
        sources, gpus, workloads, profiles, launches, runs, pairs (unordered, measured), models, evaluations.
    """
    row = database.query(
        f"""SELECT
             (SELECT count(*) FROM source WHERE dataset = $d) AS sources,
             (SELECT count(*) FROM (
                SELECT p.gpu FROM {counted.PROFILE} p JOIN workload w USING (workload_id) WHERE w.dataset = $d
                UNION SELECT r.gpu FROM {counted.RUN} r JOIN source s USING (source_id) WHERE s.dataset = $d
                UNION SELECT o.gpu FROM {counted.SOLO} o JOIN source s USING (source_id) WHERE s.dataset = $d)) AS gpus,
             (SELECT count(*) FROM workload WHERE dataset = $d) AS workloads,
             (SELECT count(*) FROM {counted.PROFILE} p JOIN workload w USING (workload_id)
              WHERE w.dataset = $d) AS profiles,
             (SELECT coalesce(sum(k.invocations), 0) FROM {counted.KERNEL} k JOIN source s USING (source_id)
              WHERE s.dataset = $d) AS launches,
             (SELECT count(*) FROM {counted.RUN} r JOIN source s USING (source_id) WHERE s.dataset = $d) AS runs,
             (SELECT count(*) FROM (
                SELECT DISTINCT r.gpu, r.mechanism, min(m.workload_id), max(m.workload_id)
                FROM member m JOIN {counted.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                WHERE s.dataset = $d AND r.k = 2 GROUP BY r.run_id, r.gpu, r.mechanism)) AS pairs,
             (SELECT count(*) FROM model WHERE dataset = $d) AS models,
             (SELECT count(*) FROM evaluation WHERE dataset = $d) AS evaluations""",
        {"d": dataset},
    ).iloc[0]
    return {str(name): int(row[name]) for name in row.index}


def grid(database: Database, dataset: str) -> pd.DataFrame:
    """Say what is known of each workload on each GPU.

    Returns
    -------
    pd.DataFrame
        One row a workload and GPU that anything is known of: workload, family, gpu, profiled (bool), solo (bool),
        partners (workloads it was measured in a pair with, itself included), possible (workloads with a run or a solo
        on that GPU), largest_k (0 without a run).
    """
    return database.query(
        f"""WITH runs AS (
             SELECT r.gpu, r.run_id, r.k, m.workload_id, m.slot FROM member m JOIN {counted.RUN} r USING (run_id)
             JOIN source s ON s.source_id = r.source_id WHERE s.dataset = $d),
           profiled AS (SELECT DISTINCT p.gpu, p.workload_id FROM {counted.PROFILE} p
                        JOIN workload w USING (workload_id) WHERE w.dataset = $d),
           alone AS (SELECT DISTINCT o.gpu, o.workload_id FROM {counted.SOLO} o JOIN source s USING (source_id)
                     WHERE s.dataset = $d),
           partners AS (
             SELECT a.gpu, a.workload_id, count(DISTINCT b.workload_id) AS partners
             FROM runs a JOIN runs b ON b.run_id = a.run_id AND b.slot <> a.slot WHERE a.k = 2
             GROUP BY a.gpu, a.workload_id),
           largest AS (SELECT gpu, workload_id, max(k) AS k FROM runs GROUP BY gpu, workload_id),
           places AS (SELECT gpu, workload_id FROM runs UNION SELECT gpu, workload_id FROM profiled
                      UNION SELECT gpu, workload_id FROM alone),
           possible AS (SELECT gpu, count(*) AS n FROM (
                          SELECT gpu, workload_id FROM runs UNION SELECT gpu, workload_id FROM alone) GROUP BY gpu)
           SELECT w.name AS workload, w.family, p.gpu, q.workload_id IS NOT NULL AS profiled,
                  a.workload_id IS NOT NULL AS solo, coalesce(partners.partners, 0) AS partners,
                  coalesce(possible.n, 0) AS possible, coalesce(largest.k, 0) AS largest_k
           FROM places p JOIN workload w USING (workload_id)
           LEFT JOIN profiled q ON q.gpu = p.gpu AND q.workload_id = p.workload_id
           LEFT JOIN alone a ON a.gpu = p.gpu AND a.workload_id = p.workload_id
           LEFT JOIN partners ON partners.gpu = p.gpu AND partners.workload_id = p.workload_id
           LEFT JOIN largest ON largest.gpu = p.gpu AND largest.workload_id = p.workload_id
           LEFT JOIN possible ON possible.gpu = p.gpu
           ORDER BY w.family, w.name, p.gpu""",
        {"d": dataset},
    )


def basis(database: Database, dataset: str) -> dict[str, int]:
    """Count the sources of a data set and how many of them are simulated: sources, simulated."""
    row = database.query(
        "SELECT count(*) AS sources, count_if(simulated) AS simulated FROM source WHERE dataset = ?", [dataset]
    ).iloc[0]
    return {"sources": int(row["sources"]), "simulated": int(row["simulated"])}


#: Formats that hold samples of devices over time.
_SERIES = ("utilization.gpu", "power.draw", "memory.used", "temperature.gpu")


def recordings(database: Database) -> pd.DataFrame:
    """Return recordings, the newest first.

    Returns
    -------
    pd.DataFrame
        source_id, dataset, file_name, device, gpu, from_at, to_at, samples, and over time: utilisation (mean percent of
        time with any kernel), power (mean W), memory (largest MiB), temperature (largest °C); NaN where not told.
        ``simulated`` where a simulator made it.
    """
    return database.query(
        f"""SELECT t.source_id, s.dataset, s.file_name, t.device, t.gpu, min(t.measured_at) AS from_at,
                   max(t.measured_at) AS to_at, count(DISTINCT t.measured_at) AS samples,
                   avg(t.value) FILTER (t.name = $util) AS utilisation, avg(t.value) FILTER (t.name = $power) AS power,
                   max(t.value) FILTER (t.name = $memory) AS memory,
                   max(t.value) FILTER (t.name = $temperature) AS temperature, bool_or(s.simulated) AS simulated
            FROM {counted.TELEMETRY} t JOIN source s USING (source_id)
            WHERE t.device IS NOT NULL AND t.measured_at IS NOT NULL
                  AND t.name IN ($util, $power, $memory, $temperature)
            GROUP BY t.source_id, s.dataset, s.file_name, t.device, t.gpu
            ORDER BY t.source_id DESC, t.device LIMIT 200""",
        dict(zip(("util", "power", "memory", "temperature"), _SERIES, strict=True)),
    )
