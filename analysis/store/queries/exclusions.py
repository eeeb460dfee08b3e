"""What the user left out of every figure: decided, taken back, listed, and said in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import duckdb
import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter

#: What a decision can leave out.
Scope = Literal["run", "member", "solo", "profile", "value", "series", "source"]

#: What one thing of each scope is called, and many.
NOUNS = {
    "run": ("run", "runs"),
    "member": ("slowdown", "slowdowns"),
    "solo": ("solo baseline", "solo baselines"),
    "profile": ("profile", "profiles"),
    "value": ("counter value", "counter values"),
    "feature": ("published counter", "published counters"),
    "series": ("telemetry series", "telemetry series"),
    "source": ("source", "sources"),
}

#: Scopes that a figure about co-runs, or one about profiles, depends on.
ABOUT = {
    "coruns": ("run", "member", "solo", "source"),
    "profiles": ("profile", "value", "feature", "series", "source"),
}

#: One thing of each scope; the solo baseline or profile of a workload is one, however many sources it came from.
_THING = (
    "struct_pack(s := scope, r := run_id, t := slot, w := workload_id, k := kernel_id, n := name, d := device, "
    "g := CASE WHEN scope IN ('solo', 'profile', 'feature') THEN gpu END, "
    "f := CASE WHEN scope IN ('source', 'series') THEN source_id END)"
)


#: How the count of members that the user left out is called among those left out for other reasons.
REASON = "by the user, rule "


@dataclass(frozen=True)
class Decision:
    """Who leaves out what a rule found, where and why.

    Attributes
    ----------
    dataset, rule, place : str
        Data set, rule and place of the finding.
    condition : str
        Which of the finding's rows; empty: all.
    why, by : str
        The reason, and who decided.
    """

    dataset: str
    rule: str
    place: str
    condition: str
    why: str
    by: str


#: Each scope's statement: from the rows that name the things (view ``wanted``) to rows of `excluded`.
_INSERT = {
    "run": """SELECT ?, r.source_id, 'run', r.run_id, NULL, NULL, r.gpu, r.mechanism, NULL, NULL, NULL
              FROM run r WHERE r.run_id IN (SELECT run_id FROM wanted)""",
    "member": """SELECT ?, m.source_id, 'member', m.run_id, m.slot, m.workload_id, r.gpu, r.mechanism, NULL, NULL, NULL
                 FROM member m JOIN run r USING (run_id)
                 WHERE (m.run_id, m.slot) IN (SELECT (run_id, slot) FROM wanted)""",
    "solo": """SELECT DISTINCT ?, o.source_id, 'solo', NULL::INTEGER, NULL::INTEGER, o.workload_id, o.gpu,
                      NULL::VARCHAR, NULL::BIGINT, NULL::VARCHAR, NULL::VARCHAR
               FROM (SELECT source_id, workload_id, gpu FROM solo
                     UNION SELECT m.source_id, m.workload_id, r.gpu FROM member m JOIN run r USING (run_id)) o
               JOIN workload w USING (workload_id)
               JOIN wanted f ON f.dataset = w.dataset AND f.workload = w.name AND f.gpu = o.gpu""",
    "profile": """SELECT DISTINCT ?, k.source_id, 'profile', NULL::INTEGER, NULL::INTEGER, p.workload_id, p.gpu,
                         NULL::VARCHAR, NULL::BIGINT, NULL::VARCHAR, NULL::VARCHAR
                  FROM kernel k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
                  JOIN wanted f ON f.dataset = w.dataset AND f.workload = w.name AND f.gpu = p.gpu""",
    "value": """SELECT DISTINCT ?, f.source_id, f.origin, NULL::INTEGER, NULL::INTEGER, f.workload_id, f.gpu,
                       NULL::VARCHAR, f.kernel_id, f.name, CASE WHEN f.origin = 'series' THEN f.gpu END
                FROM wanted f""",
    "series": """SELECT DISTINCT ?, f.source_id, 'series', NULL::INTEGER, NULL::INTEGER, NULL::INTEGER, NULL::VARCHAR,
                        NULL::VARCHAR, NULL::BIGINT, f.name, f.device FROM wanted f""",
    "source": """SELECT DISTINCT ?, f.source_id, 'source', NULL::INTEGER, NULL::INTEGER, NULL::INTEGER, NULL::VARCHAR,
                        NULL::VARCHAR, NULL::BIGINT, NULL::VARCHAR, NULL::VARCHAR FROM wanted f""",
}


def exclude(database: Database, decision: Decision, scope: Scope, rows: pd.DataFrame) -> int:
    """Leave things out of every later figure.

    Parameters
    ----------
    database : Database
        The open database.
    decision : Decision
        What is remembered about it.
    scope : str
        What one row stands for.
    rows : pd.DataFrame
        The things. For ``run`` the column run_id; ``member`` run_id, slot; ``solo`` and ``profile`` dataset, gpu,
        workload; ``value`` source_id, origin (``value``, ``feature`` or ``series``), workload_id, gpu, kernel_id,
        name; ``series`` source_id, device, name; ``source`` source_id.

    Returns
    -------
    int
        The decision's id.
    """
    with database.write() as cursor:
        number = int(cursor.execute("SELECT coalesce(max(exclusion_id), 0) + 1 FROM exclusion").fetchall()[0][0])
        cursor.execute(
            "INSERT INTO exclusion (exclusion_id, dataset, rule, place, condition, why, decided_by) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [number, decision.dataset, decision.rule, decision.place, decision.condition or None, decision.why or None,
             decision.by],
        )  # fmt: skip
        cursor.register("wanted", rows)
        cursor.execute(f"INSERT INTO excluded {_INSERT[scope]}", [number])
        cursor.unregister("wanted")
        sweep(cursor)
    return number


def keep(database: Database, numbers: list[int]) -> None:
    """Take decisions back: what they left out counts again."""
    with database.write() as cursor:
        cursor.execute("DELETE FROM excluded WHERE exclusion_id IN (SELECT unnest(?::INTEGER[]))", [numbers])
        cursor.execute("DELETE FROM exclusion WHERE exclusion_id IN (SELECT unnest(?::INTEGER[]))", [numbers])


def sweep(cursor: duckdb.DuckDBPyConnection) -> None:
    """Forget decisions that leave nothing out any more, as after their source was removed."""
    cursor.execute("DELETE FROM exclusion WHERE exclusion_id NOT IN (SELECT exclusion_id FROM excluded)")


def decisions(database: Database, dataset: str | None = None) -> pd.DataFrame:
    """Return one row a decision and scope, newest first.

    Returns
    -------
    pd.DataFrame
        exclusion_id, dataset, rule, place, scope, count (things left out), condition, why, decided_by, decided_at.
    """
    return database.query(
        f"""SELECT e.exclusion_id, e.dataset, e.rule, e.place, t.scope, t.count, e.condition, e.why, e.decided_by,
                   e.decided_at
            FROM exclusion e JOIN (SELECT exclusion_id, scope, count(DISTINCT {_THING}) AS count FROM excluded
                                   GROUP BY exclusion_id, scope) t USING (exclusion_id)
            WHERE $dataset IS NULL OR e.dataset = $dataset ORDER BY e.exclusion_id DESC, t.scope""",
        {"dataset": dataset},
    )


def things(database: Database, exclusion_id: int) -> pd.DataFrame:
    """Return what one decision leaves out: scope, workload, gpu, mechanism, run_id, slot, name, device, file_name."""
    return database.query(
        """SELECT x.scope, coalesce(w.name, (SELECT string_agg(v.name, ' + ' ORDER BY m.slot) FROM member m
                                             JOIN workload v USING (workload_id)
                                             WHERE m.run_id = x.run_id)) AS workload,
                  x.gpu, x.mechanism, x.run_id, x.slot, x.name, x.device, s.file_name
           FROM excluded x JOIN source s USING (source_id) LEFT JOIN workload w USING (workload_id)
           WHERE x.exclusion_id = ? ORDER BY ALL""",
        [exclusion_id],
    )


def left_out(
    database: Database, chosen: Filter | None = None, about: Literal["coruns", "profiles"] | None = None
) -> pd.DataFrame:
    """Count what is left out of a figure, by rule.

    Parameters
    ----------
    database : Database
        The open database.
    chosen : Filter, optional
        What the figure is restricted to; data set, GPU, mechanism, workload and source count.
    about : {"coruns", "profiles"}, optional
        What the figure is made from; both by default.

    Returns
    -------
    pd.DataFrame
        rule, scope, count; empty where nothing is left out.
    """
    where, values = (chosen or Filter()).where("dataset", "source_id")
    conditions = [where]
    for column, kept in (
        ("gpu", chosen.gpus if chosen else ()),
        ("mechanism", chosen.mechanisms if chosen else ()),
        ("workload", chosen.workloads if chosen else ()),
        ("scope", ABOUT[about] if about else ()),
    ):
        if kept:  # a source has no GPU of its own, a solo baseline no mechanism, a run no single workload
            conditions.append(f"({column} IS NULL OR {column} IN ({', '.join('?' * len(kept))}))")
            values.extend(kept)
    return database.query(
        f"""SELECT rule, scope, count(DISTINCT {_THING}) AS count FROM (
              SELECT s.dataset, x.*, e.rule, w.name AS workload
              FROM excluded x JOIN exclusion e USING (exclusion_id) JOIN source s ON s.source_id = x.source_id
                   LEFT JOIN workload w ON w.workload_id = x.workload_id)
            WHERE {" AND ".join(conditions)} GROUP BY rule, scope ORDER BY rule, scope""",
        values,
    )


def members_left_out(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Count the members of co-runs that have no value by the user's word, by rule: rule, members.

    A filter on workloads, families or phases restricts the members that count, not their partners.
    """
    where, values = (chosen or Filter()).where()
    return database.query(
        f"""SELECT rule, count(DISTINCT (run_id, slot)) AS members FROM (
              SELECT e.rule, m.run_id, m.slot, s.dataset, r.gpu, r.mechanism, w.name AS workload, w.family, w.phase,
                     w.batch_size, w."precision", m.source_id
              FROM excluded x JOIN exclusion e USING (exclusion_id) JOIN member m ON m.source_id = x.source_id
                   JOIN run r ON r.run_id = m.run_id JOIN source s ON s.source_id = m.source_id
                   JOIN workload w ON w.workload_id = m.workload_id
              WHERE x.scope = 'source' OR (x.scope = 'run' AND x.run_id = m.run_id)
                    OR (x.scope = 'member' AND x.run_id = m.run_id AND x.slot = m.slot)
                    OR (x.scope = 'solo' AND x.workload_id = m.workload_id AND x.gpu = r.gpu))
            WHERE {where} GROUP BY rule ORDER BY rule""",
        values,
    )


def changed_since(database: Database, dataset: str, moment: datetime, counted: Mapping[str, int]) -> str | None:
    """Say by which rules rows were left out or kept again since a figure was made; None where nothing changed.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set of the figure.
    moment : datetime
        When it was made.
    counted : mapping of str to int
        What it counted as left out, by reason; those of the user are called `REASON` and the rule.
    """
    now = decisions(database, dataset)
    now = now[now["scope"].isin(ABOUT["coruns"])]
    later = set(now.loc[now["decided_at"] > pd.Timestamp(moment), "rule"])
    back = {reason.removeprefix(REASON) for reason in counted if reason.startswith(REASON)} - set(now["rule"])
    if not later | back:
        return None
    return (
        f"Since these figures were made, rows were left out or kept again (rule {', '.join(sorted(later | back))}); "
        "score the predictors again."
    )


def sentence(found: pd.DataFrame) -> str:
    """Say what `left_out` counted; empty where it counted nothing.

    Examples
    --------
    >>> sentence(pd.DataFrame({"rule": ["did-not-run"], "scope": ["run"], "count": [12]}))
    'Left out by the user: 12 runs (rule did-not-run).'
    """
    parts = []
    for rule, scope, count in found[["rule", "scope", "count"]].itertuples(index=False):
        one, many = NOUNS[scope]
        parts.append(f"{int(count):,} {one if count == 1 else many} (rule {rule})")
    return f"Left out by the user: {', '.join(parts)}." if parts else ""


def said(database: Database, chosen: Filter | None = None, about: Literal["coruns", "profiles"] | None = None) -> str:
    """Say what is left out of a figure; empty where nothing is. Takes what `left_out` takes."""
    return sentence(left_out(database, chosen, about))


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
