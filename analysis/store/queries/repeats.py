"""The same measurement in two places: co-runs that stand several times, and launches exported more than once."""

from __future__ import annotations

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database


def repeated_launches(database: Database, dataset: str | None = None, source_id: int | None = None) -> pd.DataFrame:
    """Return profiles whose launches from one file all stand in an earlier one too: one measurement, exported again.

    Launches are the same when kernel, grid and number in the profile agree, their durations are not different, and
    every metric that both have has one value; at least one of these must be there to compare.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str, optional
        Restrict to one data set.
    source_id : int, optional
        The later file; all by default.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, workload, launches, file_name (the later one), source_id, other_file (the earlier one).
    """
    return database.query(
        f"""WITH numbered AS (
              SELECT kernel_id, profile_id, source_id, name, coalesce(grid, '') AS grid, duration_ns,
                     coalesce(launch_id, 'all ' || invocations) AS number
              FROM {kept.KERNEL} k WHERE launch_id IS NOT NULL OR invocations > 1),
            twin AS (
              SELECT a.kernel_id AS late, b.kernel_id AS early, a.source_id, b.source_id AS other, a.profile_id,
                     a.duration_ns = b.duration_ns AS same_time
              FROM numbered a JOIN numbered b ON a.profile_id = b.profile_id AND a.name = b.name AND a.grid = b.grid
                                              AND a.number = b.number AND a.source_id > b.source_id
              WHERE $source IS NULL OR a.source_id = $source),
            compared AS (
              SELECT t.late, t.early, count(*) AS shared, count(*) FILTER (WHERE x.value = y.value) AS agreeing
              FROM twin t JOIN kernel_metric x ON x.kernel_id = t.late
                   JOIN kernel_metric y ON y.kernel_id = t.early AND y.metric = x.metric
                                        AND y.section IS NOT DISTINCT FROM x.section
              WHERE x.value IS NOT NULL AND y.value IS NOT NULL GROUP BY ALL),
            same AS (
              SELECT t.source_id, t.other, t.profile_id, count(DISTINCT t.late) AS launches
              FROM twin t LEFT JOIN compared c USING (late, early)
              WHERE t.same_time IS DISTINCT FROM false AND coalesce(c.shared = c.agreeing, true)
                    AND (t.same_time OR c.shared > 0)
              GROUP BY ALL)
            SELECT s.dataset, p.gpu, w.name AS workload, d.launches, s.file_name, d.source_id, o.file_name AS other_file
            FROM same d JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
                 JOIN source s ON s.source_id = d.source_id JOIN source o ON o.source_id = d.other
            WHERE d.launches = (SELECT count(*) FROM kernel k
                                WHERE k.profile_id = d.profile_id AND k.source_id = d.source_id)
                  AND ($dataset IS NULL OR s.dataset = $dataset)
            ORDER BY ALL""",
        {"dataset": dataset, "source": source_id},
    )


def runs_again(database: Database, source_id: int) -> pd.DataFrame:
    """Return how many co-runs of a source stand in others of its data set, to the last digit: file_name, runs."""
    return database.query(
        f"""WITH one AS (
              SELECT s.dataset, r.gpu, r.mechanism, r.run_id, r.source_id, s.file_name,
                     list(w.name ORDER BY w.name, m.corun_value) AS workloads,
                     list(m.corun_value ORDER BY w.name, m.corun_value) AS figures,
                     list(struct_pack(t := m.thread_percentage, c := m.memory_cap_mib, g := m.mig_profile)
                          ORDER BY w.name, m.corun_value) AS caps
              FROM {kept.MEMBER} m JOIN {kept.RUN} r USING (run_id) JOIN source s ON s.source_id = r.source_id
                   JOIN workload w USING (workload_id)
              WHERE s.dataset = (SELECT dataset FROM source WHERE source_id = $source)
              GROUP BY ALL HAVING count(m.corun_value) = count(*))
            SELECT b.file_name, count(DISTINCT a.run_id) AS runs
            FROM one a JOIN one b ON a.gpu = b.gpu AND a.mechanism = b.mechanism AND a.workloads = b.workloads
                                  AND a.figures = b.figures AND a.caps = b.caps AND b.source_id <> a.source_id
            WHERE a.source_id = $source GROUP BY b.file_name ORDER BY b.file_name""",
        {"source": source_id},
    )
