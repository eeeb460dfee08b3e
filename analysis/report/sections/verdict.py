"""The answer of a report on a data set: which pairs may share at the limit, and what that rests on."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.charts.slowdown_heatmap import MOST as MOST_WORKLOADS
from analysis.interference.matrix import SlowdownMatrix
from analysis.predict.models.judged import in_short, judged_pairs
from analysis.reference import origin
from analysis.report.document import Block, Heading, Section, Text
from analysis.report.table import columns_of, table
from analysis.store.database import Database

#: Pairs that a table names; `stallscope partners` has all.
_MOST = 60

_COLUMNS = columns_of(
    "workload/job", "partner", "verdict", "figure/worst", "within_limit", "evidence", "n/behind", "memory", "why"
)


def judge(
    database: Database, matrices: Sequence[SlowdownMatrix], limit: float
) -> list[tuple[SlowdownMatrix, pd.DataFrame]]:
    """Judge every pair of each place that is small enough to be shown whole.

    Returns
    -------
    list of (SlowdownMatrix, pd.DataFrame)
        Each matrix with its pairs as `judged_pairs` gives them, those that may share first.
    """
    return [
        (matrix, judged_pairs(database, matrix.dataset, matrix.gpu, matrix.mechanism, limit))
        for matrix in matrices
        if matrix.n and len(matrix.workloads) <= MOST_WORKLOADS
    ]


def summary(judged: Sequence[tuple[SlowdownMatrix, pd.DataFrame]], limit: float) -> list[str]:
    """Say for each place how many pairs may share, and which is the gentlest."""
    return [in_short(pairs, matrix.gpu, limit, simulated=matrix.simulated) for matrix, pairs in judged]


def section(judged: Sequence[tuple[SlowdownMatrix, pd.DataFrame]], limit: float) -> Section:
    """Make the section."""
    order = {"share": 0, "measure first": 1, "don't": 2}
    blocks: list[Block] = []
    for matrix, pairs in judged:
        if len(judged) > 1:
            blocks.append(Heading(title=f"{matrix.gpu}, {matrix.mechanism}"))
        blocks.append(Text(sentences=(in_short(pairs, matrix.gpu, limit, simulated=matrix.simulated),)))
        rows = pairs.assign(
            rank=pairs["verdict"].map(order),
            evidence=[origin.evidence(str(one), simulated=matrix.simulated) for one in pairs["evidence"]],
        )
        rows = rows.sort_values(["rank", "figure"], kind="stable").head(_MOST)
        left = len(pairs) - len(rows)
        caption = (
            "The same verdicts as on every page, at this limit: a run of the pair where there is one, else the "
            "probability that both stay within the limit."
        )
        if left:
            caption += f" {left:,} more pairs: `stallscope partners --limit {limit:g}` lists all."
        title = f"Who may share at {limit:g} x, {matrix.gpu}, {matrix.mechanism}"
        blocks.append(table(title, rows.astype(object).where(rows.notna(), None), _COLUMNS, caption=caption))
    return Section(key="verdicts", title=f"Who may share at {limit:g} x", blocks=tuple(blocks))
