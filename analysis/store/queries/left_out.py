"""Values that the user left out, for the checks that must see them all the same."""

from __future__ import annotations

import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter


def slowdowns_left_out(database: Database, rule: str, chosen: Filter | None = None) -> pd.DataFrame:
    """Return the slowdowns in runs of two that were left out with all that a rule found, member by member.

    Leaving out whatever shows that a baseline is off does not make the baseline sound. Rows that the user chose one by
    one or by a condition are not among them: those are measurements that he knows to be wrong.

    Returns
    -------
    pd.DataFrame
        dataset, gpu, workload, partner, slowdown, thread_percentage, mig_profile.
    """
    where, values = (chosen or Filter()).where("dataset", "gpu")
    return database.query(
        f"""SELECT DISTINCT * FROM (
              SELECT s.dataset, r.gpu, w.name AS workload, v.name AS partner, m.slowdown, m.thread_percentage,
                     m.mig_profile
              FROM excluded x JOIN exclusion e USING (exclusion_id)
                   JOIN member m ON m.run_id = x.run_id AND m.slot = x.slot
                   JOIN member b ON b.run_id = m.run_id AND b.slot <> m.slot
                   JOIN run r ON r.run_id = m.run_id JOIN source s ON s.source_id = m.source_id
                   JOIN workload w ON w.workload_id = m.workload_id JOIN workload v ON v.workload_id = b.workload_id
              WHERE x.scope = 'member' AND e.rule = ? AND e.condition IS NULL AND r.k = 2
                    AND m.slowdown IS NOT NULL)
            WHERE {where}""",
        [rule, *values],
    )
