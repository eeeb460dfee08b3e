"""The tables without what the user left out: the one place where exclusions take effect.

Queries read these in place of the tables themselves, so that no figure can overlook a decision. Only what shows the
files as they are (sources, rejected rows) reads the tables. What is left out stays in the database and comes back
whole when the decision is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.store.database import Database


def anything_out(database: Database) -> bool:
    """Say whether anything is left out at all; looked up once after each write.

    Queries over a million values ask first: a condition that no row fails still costs a third of the query.
    """
    return database.cached(
        "anything left out", None, lambda: bool(database.scalar("SELECT count(*) > 0 FROM excluded"))
    )


def _out(scope: str, condition: str) -> str:
    return f"EXISTS (SELECT 1 FROM excluded x WHERE x.scope = '{scope}' AND {condition})"


def _source(table: str) -> str:
    return _out("source", f"x.source_id = {table}.source_id")


#: Runs that count. A run left out is as if it had never been measured.
RUN = f"(SELECT t.* FROM run t WHERE NOT {_out('run', 'x.run_id = t.run_id')} AND NOT {_source('t')})"

_MEMBER = _out("member", "x.run_id = t.run_id AND x.slot = t.slot")
_BASELINE = _out("solo", "x.source_id = t.source_id AND x.workload_id = t.workload_id AND x.gpu = g.gpu")

#: Members of all runs; join with `RUN`. One left out stays as a co-runner of the others but has no value of its own;
#: without a solo baseline it has no slowdown.
MEMBER = f"""(
    SELECT t.* REPLACE (
        CASE WHEN {_MEMBER} OR {_BASELINE} THEN NULL ELSE t.slowdown END AS slowdown,
        CASE WHEN {_BASELINE} THEN NULL ELSE t.solo_value END AS solo_value,
        CASE WHEN {_MEMBER} THEN NULL ELSE t.corun_value END AS corun_value,
        CASE WHEN {_MEMBER} THEN NULL ELSE t.p99_corun_ms END AS p99_corun_ms),
        {_MEMBER} OR {_BASELINE} AS left_out
    FROM member t JOIN run g ON g.run_id = t.run_id)"""


def member(database: Database) -> str:
    """Return `MEMBER`, or where nothing is left out the same of the plain table, at a fraction of the cost."""
    return MEMBER if anything_out(database) else "(SELECT t.*, false AS left_out FROM member t)"


def run(database: Database) -> str:
    """Return `RUN`, or where nothing is left out the plain table."""
    return RUN if anything_out(database) else "run"


#: Latency statistics of members that count.
MEMBER_LATENCY = f"(SELECT t.* FROM member_latency t WHERE NOT {_MEMBER})"

#: Solo measurements that count.
SOLO = f"""(
    SELECT t.* FROM solo t
    WHERE NOT {_out("solo", "x.source_id = t.source_id AND x.workload_id = t.workload_id AND x.gpu = t.gpu")}
          AND NOT {_source("t")})"""

#: Published aggregates that count.
FEATURE = f"""(
    SELECT t.* FROM feature t
    WHERE NOT {
    _out("feature", "x.source_id = t.source_id AND x.workload_id = t.workload_id AND x.gpu = t.gpu AND x.name = t.name")
} AND NOT {_source("t")})"""

#: Telemetry that counts.
TELEMETRY = f"""(
    SELECT t.* FROM telemetry t
    WHERE NOT {
    _out("series", "x.source_id = t.source_id AND x.name = t.name AND x.device = coalesce(t.device, t.gpu, '')")
} AND NOT {_source("t")})"""

#: Ids of the launches that are left out: cheap where nothing is, as the launches are not looked at then.
LAUNCHES_OUT = """(
    SELECT k.kernel_id FROM excluded x JOIN kernel k ON k.source_id = x.source_id
    JOIN profile q ON q.profile_id = k.profile_id
    WHERE x.scope = 'source' OR (x.scope = 'profile' AND x.workload_id = q.workload_id AND x.gpu = q.gpu))"""

#: Launches that count.
KERNEL = f"(SELECT t.* FROM kernel t WHERE t.kernel_id NOT IN {LAUNCHES_OUT})"

#: Condition on a row ``m`` of `kernel_metric`: its value counts. Whether its launch does is for the join to say.
VALUE_COUNTS = f"NOT {_out('value', 'x.kernel_id = m.kernel_id AND x.name = m.metric')}"

#: Profiles of which any launch counts.
PROFILE = f"(SELECT p.* FROM profile p WHERE p.profile_id IN (SELECT profile_id FROM {KERNEL}))"
