"""What the checks of the data look for, where a frame of all rows would be too much."""

from __future__ import annotations

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database

#: Names of counters that are a part of a peak, whatever tool printed them.
_OF_PEAK = (
    "(o.name LIKE '%pct_of_peak%' OR o.name ILIKE '%throughput' OR o.name ILIKE '%busy' OR o.name ILIKE '%occupancy' "
    "OR o.name ILIKE '%utilization%' OR o.name ILIKE '%util%')"
)


def above_percent(database: Database, limit: float, dataset: str | None = None) -> pd.DataFrame:
    """Return counters above a percentage of their peak.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, workload, name, value, file_name, line; and what names each: source_id, origin (``value`` of a
        launch, ``feature`` or ``series`` of telemetry), workload_id, kernel_id.
    """
    return database.query(
        f"""SELECT s.dataset, o.gpu, w.name AS workload, o.name, o.value, s.file_name, o.line, o.source_id, o.origin,
                   o.workload_id, o.kernel_id
            FROM (
              SELECT m.source_id, p.gpu, p.workload_id, m.metric AS name, m.value, m.line, 'value' AS origin,
                     k.kernel_id
              FROM kernel_metric m JOIN {kept.KERNEL} k USING (kernel_id) JOIN profile p USING (profile_id)
              WHERE m.unit = '%' AND m.family IS NULL AND m.value > $limit AND {kept.VALUE_COUNTS}
              UNION ALL
              SELECT source_id, gpu, workload_id, name, value, NULL, 'feature', NULL FROM {kept.FEATURE} f
              WHERE unit = '%' AND value > $limit
              UNION ALL
              SELECT source_id, coalesce(device, gpu, ''), workload_id, name, value, NULL, 'series', NULL
              FROM {kept.TELEMETRY} t WHERE unit = '%' AND value > $limit) o
            JOIN source s USING (source_id) LEFT JOIN workload w USING (workload_id)
            WHERE {_OF_PEAK} AND ($dataset IS NULL OR s.dataset = $dataset)
            ORDER BY s.dataset, o.gpu, o.value DESC""",
        {"limit": limit, "dataset": dataset},
    )


def telemetry_extremes(database: Database, dataset: str | None = None) -> pd.DataFrame:
    """Return a row a source, device and counter.

    Returns
    -------
    pd.DataFrame
        dataset, file_name, source_id, device, name, unit, samples, smallest, largest.
    """
    return database.query(
        f"""SELECT s.dataset, s.file_name, t.source_id, coalesce(t.device, t.gpu, '') AS device, t.name,
                  any_value(t.unit) AS unit, count(t.value) AS samples, min(t.value) AS smallest,
                  max(t.value) AS largest
           FROM {kept.TELEMETRY} t JOIN source s USING (source_id) WHERE $dataset IS NULL OR s.dataset = $dataset
           GROUP BY s.dataset, s.file_name, t.source_id, coalesce(t.device, t.gpu, ''), t.name
           HAVING count(t.value) > 0
           ORDER BY ALL""",
        {"dataset": dataset},
    )


def identical_series(database: Database, dataset: str | None = None, samples: int = 5) -> pd.DataFrame:
    """Return counters whose values agree at every moment for several pods or processes of one device.

    Returns
    -------
    pd.DataFrame
        dataset, file_name, source_id, device, name, entities (list), samples. Constant series are left out.
    """
    return database.query(
        f"""WITH series AS (
             SELECT s.dataset, s.file_name, t.source_id, coalesce(t.device, t.gpu, '') AS device, t.name, t.entity,
                    list(t.value ORDER BY t.measured_at, t.value) AS trace, count(*) AS samples
             FROM {kept.TELEMETRY} t JOIN source s USING (source_id)
             WHERE t.entity IS NOT NULL AND t.value IS NOT NULL AND ($dataset IS NULL OR s.dataset = $dataset)
             GROUP BY ALL HAVING count(*) >= $samples AND min(t.value) < max(t.value))
           SELECT dataset, file_name, source_id, device, name, list_sort(list(entity)) AS entities,
                  any_value(samples) AS samples
           FROM series GROUP BY dataset, file_name, source_id, device, name, trace HAVING count(*) > 1 ORDER BY ALL""",
        {"dataset": dataset, "samples": samples},
    )


def repeated_runs(database: Database, dataset: str | None = None) -> pd.DataFrame:
    """Return co-runs that stand several times with the same values, those alone too, to the last digit.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, mechanism, workloads (list), copies, run_ids (list), files (list).
    """
    return database.query(
        f"""WITH one AS (
             SELECT s.dataset, r.gpu, r.mechanism, r.run_id, s.file_name,
                    list(w.name ORDER BY w.name, m.corun_value) AS workloads,
                    list(m.corun_value ORDER BY w.name, m.corun_value) AS figures,
                    list(m.solo_value ORDER BY w.name, m.corun_value) AS solos,
                    list(struct_pack(t := m.thread_percentage, c := m.memory_cap_mib, g := m.mig_profile)
                         ORDER BY w.name, m.corun_value) AS caps
             FROM {kept.MEMBER} m JOIN {kept.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                  JOIN workload w USING (workload_id)
             WHERE $dataset IS NULL OR s.dataset = $dataset
             GROUP BY ALL HAVING count(m.corun_value) = count(*))
           SELECT dataset, gpu, mechanism, workloads, count(*) AS copies, list(run_id ORDER BY run_id) AS run_ids,
                  list_sort(list_distinct(list(file_name))) AS files
           FROM one GROUP BY dataset, gpu, mechanism, workloads, figures, solos, caps
           HAVING count(*) > 1 ORDER BY ALL""",
        {"dataset": dataset},
    )


def same_values_other_solo(database: Database, tolerance: float, dataset: str | None = None) -> pd.DataFrame:
    """Return members with the same co-run value in two data sets, or two files of one, while their solo values differ.

    Parameters
    ----------
    database : Database
        The open database.
    tolerance : float
        Relative difference of the solo values that counts.
    dataset : str, optional
        One of the two data sets.

    Returns
    -------
    pd.DataFrame
        dataset, other_dataset, gpu, workload, beside (list), corun_value, solo_value, other_solo_value, file_name,
        other_file.
    """
    return database.query(
        f"""WITH one AS (
             SELECT s.dataset, s.source_id, s.file_name, r.gpu, r.run_id, m.slot, w.name AS workload, m.solo_value,
                    m.corun_value,
                    (SELECT list(v.name ORDER BY v.name) FROM member o JOIN workload v ON v.workload_id = o.workload_id
                     WHERE o.run_id = r.run_id AND o.slot <> m.slot) AS beside
             FROM {kept.MEMBER} m JOIN {kept.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                  JOIN workload w USING (workload_id)
             WHERE m.corun_value > 0 AND m.solo_value > 0 AND m.unit IS DISTINCT FROM 'normalised')
           SELECT DISTINCT a.dataset, b.dataset AS other_dataset, a.gpu, a.workload, a.beside, a.corun_value,
                  a.solo_value, b.solo_value AS other_solo_value, a.file_name, b.file_name AS other_file
           FROM one a JOIN one b ON a.gpu = b.gpu AND a.workload = b.workload AND a.beside = b.beside
                                 AND a.corun_value = b.corun_value
                                 AND (a.dataset < b.dataset OR a.dataset = b.dataset AND a.source_id < b.source_id)
           WHERE abs(b.solo_value / a.solo_value - 1) > $tolerance
                 AND ($dataset IS NULL OR $dataset IN (a.dataset, b.dataset))
           ORDER BY ALL""",
        {"tolerance": tolerance, "dataset": dataset},
    )
