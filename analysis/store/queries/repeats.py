"""The same measurement in two places: co-runs that stand several times, and launches and samples exported again."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.store import counted
from analysis.store.database import Database

#: Fewest samples that two files must share before they are said to be of one recording.
FEWEST_SAMPLES = 3


def repeated_launches(
    database: Database, dataset: str | None = None, sources: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return profiles whose launches from one file all stand in another one too: one measurement, exported again.

    Launches are the same when kernel, grid and number in the profile agree, their durations are not different, and
    every metric that both have has one value; at least one of these must be there to compare. A file is often named
    after itself, so the workloads and GPUs of the two may differ: then every launch must have the same duration, or
    the same broken number in some metric, as whole numbers may agree by chance.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str, optional
        Restrict to one data set.
    sources : sequence of int, optional
        Those that one of the two files, the later one, must be of; all by default.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, workload, launches, file_name and source_id of the file that holds nothing else (the later one
        where both have the same launches), and other_file, other_id, other_workload, other_gpu of the other one.
    """
    return database.query(
        f"""WITH numbered AS (
              SELECT k.kernel_id, k.profile_id, k.source_id, s.dataset, k.name, coalesce(k.grid, '') AS grid,
                     k.duration_ns, coalesce(k.launch_id, 'all ' || k.invocations) AS number
              FROM {counted.KERNEL} k JOIN source s USING (source_id)
              WHERE (k.launch_id IS NOT NULL OR k.invocations > 1) AND ($dataset IS NULL OR s.dataset = $dataset)),
            twin AS (
              SELECT a.kernel_id AS late, b.kernel_id AS early, a.source_id, b.source_id AS other, a.profile_id,
                     b.profile_id AS other_profile, a.duration_ns = b.duration_ns AS same_time
              FROM numbered a JOIN numbered b ON a.dataset = b.dataset AND a.name = b.name AND a.grid = b.grid
                                              AND a.number = b.number AND a.source_id > b.source_id
              WHERE (a.duration_ns = b.duration_ns) IS DISTINCT FROM false
                    AND ($sources IS NULL OR a.source_id IN (SELECT unnest($sources::INTEGER[])))),
            compared AS (
              SELECT t.late, t.early, count(*) AS shared, count(*) FILTER (WHERE x.value = y.value) AS agreeing,
                     count(*) FILTER (WHERE x.value = y.value AND x.value <> floor(x.value)) AS broken
              FROM twin t JOIN kernel_metric x ON x.kernel_id = t.late
                   JOIN kernel_metric y ON y.kernel_id = t.early AND y.metric = x.metric
                                        AND y.section IS NOT DISTINCT FROM x.section
              WHERE x.value IS NOT NULL AND y.value IS NOT NULL GROUP BY ALL),
            same AS (
              SELECT t.source_id, t.other, t.profile_id, t.other_profile, count(DISTINCT t.late) AS launches,
                     count(DISTINCT t.early) AS earlier,
                     count(DISTINCT t.late) FILTER (WHERE t.same_time OR c.broken > 0) AS certain
              FROM twin t LEFT JOIN compared c USING (late, early)
              WHERE coalesce(c.shared = c.agreeing, true) AND (t.same_time OR c.shared > 0)
              GROUP BY ALL),
            sized AS (
              SELECT d.*, (SELECT count(*) FROM kernel k
                           WHERE k.profile_id = d.profile_id AND k.source_id = d.source_id) AS all_late,
                     (SELECT count(*) FROM kernel k
                      WHERE k.profile_id = d.other_profile AND k.source_id = d.other) AS all_early
              FROM same d WHERE d.profile_id = d.other_profile OR d.certain = d.launches),
            told AS (
              SELECT launches, profile_id, source_id, other_profile, other FROM sized WHERE launches = all_late
              UNION ALL
              SELECT earlier, other_profile, other, profile_id, source_id FROM sized
              WHERE launches < all_late AND earlier = all_early)
            SELECT s.dataset, p.gpu, w.name AS workload, d.launches, s.file_name, d.source_id,
                   o.file_name AS other_file, d.other AS other_id, v.name AS other_workload, q.gpu AS other_gpu
            FROM told d JOIN profile p ON p.profile_id = d.profile_id JOIN workload w ON w.workload_id = p.workload_id
                 JOIN profile q ON q.profile_id = d.other_profile JOIN workload v ON v.workload_id = q.workload_id
                 JOIN source s ON s.source_id = d.source_id JOIN source o ON o.source_id = d.other
            ORDER BY ALL""",
        {"dataset": dataset, "sources": None if sources is None else list(sources)},
    )


def repeated_samples(
    database: Database, dataset: str | None = None, sources: Sequence[int] | None = None
) -> pd.DataFrame:
    """Return files of telemetry that share samples: a recording exported twice, or two exports that overlap.

    A sample is a counter of a device and job at a moment; without a moment the job must be known. Two files are of
    one recording when all values agree of the samples that both have, and not all of them are one number.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str, optional
        Restrict to one data set.
    sources : sequence of int, optional
        Those that the later file must be of; all by default.

    Returns
    -------
    pd.DataFrame
        dataset, gpu (the first one known), samples (in both), of (in the later file), file_name, source_id (the later
        one), other_file, other_id.
    """
    return database.query(
        f"""WITH one AS (
              SELECT s.dataset, t.source_id, coalesce(t.device, t.gpu, '') AS device, coalesce(t.entity, '') AS entity,
                     t.name, t.measured_at, t.value, t.gpu,
                     row_number() OVER (PARTITION BY t.source_id, coalesce(t.device, t.gpu, ''), t.entity, t.name,
                                                     t.measured_at ORDER BY t.value) AS place
              FROM {counted.TELEMETRY} t JOIN source s USING (source_id)
              WHERE t.value IS NOT NULL AND (t.measured_at IS NOT NULL OR t.entity IS NOT NULL)
                    AND ($dataset IS NULL OR s.dataset = $dataset)
                    AND ($sources IS NULL
                         OR (s.dataset, t.name) IN (SELECT z.dataset, n.name FROM {counted.TELEMETRY} n
                                                    JOIN source z USING (source_id)
                                                    WHERE n.source_id IN (SELECT unnest($sources::INTEGER[]))))),
            common AS (
              SELECT a.dataset, a.source_id, b.source_id AS other, min(a.gpu) AS gpu, count(*) AS samples,
                     count(*) FILTER (WHERE a.value = b.value) AS agreeing, count(DISTINCT a.value) AS different
              FROM one a JOIN one b ON a.dataset = b.dataset AND a.device = b.device AND a.entity = b.entity
                   AND a.name = b.name AND a.measured_at IS NOT DISTINCT FROM b.measured_at AND a.place = b.place
                   AND a.source_id > b.source_id
              WHERE $sources IS NULL OR a.source_id IN (SELECT unnest($sources::INTEGER[]))
              GROUP BY ALL)
            SELECT d.dataset, d.gpu, d.samples,
                   (SELECT count(*) FROM {counted.TELEMETRY} t
                    WHERE t.source_id = d.source_id AND t.value IS NOT NULL) AS "of",
                   s.file_name, d.source_id, o.file_name AS other_file, d.other AS other_id
            FROM common d JOIN source s ON s.source_id = d.source_id JOIN source o ON o.source_id = d.other
            WHERE d.samples = d.agreeing AND d.samples >= {FEWEST_SAMPLES} AND d.different > 1
            ORDER BY ALL""",
        {"dataset": dataset, "sources": None if sources is None else list(sources)},
    )


def runs_again(database: Database, sources: Sequence[int]) -> pd.DataFrame:
    """Return how many co-runs of sources stand in earlier ones of their data set, to the last digit.

    Returns
    -------
    pd.DataFrame
        source_id, file_name (of the earlier one), runs, and rebased: those of the runs whose solo values differ, so
        that their slowdowns do too.
    """
    return database.query(
        f"""WITH one AS (
              SELECT s.dataset, r.gpu, r.mechanism, r.run_id, r.source_id, s.file_name,
                     list(w.name ORDER BY w.name, m.corun_value) AS workloads,
                     list(m.corun_value ORDER BY w.name, m.corun_value) AS figures,
                     list(m.solo_value ORDER BY w.name, m.corun_value) AS solos,
                     list(struct_pack(t := m.thread_percentage, c := m.memory_cap_mib, g := m.mig_profile)
                          ORDER BY w.name, m.corun_value) AS caps
              FROM {counted.MEMBER} m JOIN {counted.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                   JOIN workload w USING (workload_id)
              WHERE s.dataset IN (SELECT dataset FROM source WHERE source_id IN (SELECT unnest($sources::INTEGER[])))
              GROUP BY ALL HAVING count(m.corun_value) = count(*)),
            pair AS (
              SELECT a.source_id, b.file_name, a.run_id, bool_and(coalesce(list_bool_or(
                       list_transform(list_zip(a.solos, b.solos), lambda x: x[1] <> x[2])), false)) AS rebased
              FROM one a JOIN one b ON a.gpu = b.gpu AND a.mechanism = b.mechanism AND a.workloads = b.workloads
                                    AND a.dataset = b.dataset AND a.figures = b.figures AND a.caps = b.caps
                                    AND b.source_id < a.source_id
              WHERE a.source_id IN (SELECT unnest($sources::INTEGER[])) GROUP BY ALL)
            SELECT source_id, file_name, count(*) AS runs, count(*) FILTER (WHERE rebased) AS rebased
            FROM pair GROUP BY source_id, file_name ORDER BY source_id, file_name""",
        {"sources": list(sources)},
    )


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
              FROM kernel_metric m JOIN {counted.KERNEL} k USING (kernel_id) JOIN profile p USING (profile_id)
              WHERE m.unit = '%' AND m.family IS NULL AND m.value > $limit AND {counted.VALUE_COUNTS}
              UNION ALL
              SELECT source_id, gpu, workload_id, name, value, NULL, 'feature', NULL FROM {counted.FEATURE} f
              WHERE unit = '%' AND value > $limit
              UNION ALL
              SELECT source_id, coalesce(device, gpu, ''), workload_id, name, value, NULL, 'series', NULL
              FROM {counted.TELEMETRY} t WHERE unit = '%' AND value > $limit) o
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
           FROM {counted.TELEMETRY} t JOIN source s USING (source_id) WHERE $dataset IS NULL OR s.dataset = $dataset
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
             FROM {counted.TELEMETRY} t JOIN source s USING (source_id)
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
             FROM {counted.MEMBER} m JOIN {counted.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
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
             FROM {counted.MEMBER} m JOIN {counted.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
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
