"""Who slows whom: one part of a report for each GPU and mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.charts.sensitivity_pressure import sensitivity_pressure
from analysis.charts.slowdown_heatmap import MOST, slowdown_heatmap
from analysis.interference.finding import counted
from analysis.interference.matrix import MEASURED, NOT_MEASURED, SlowdownMatrix
from analysis.interference.partners import sensitivity_and_pressure
from analysis.numbers import significant, slowdown
from analysis.report.document import Block, Heading, Matrix, Notice, Section, Table, Text
from analysis.report.plain import plain
from analysis.report.table import columns_of, figure, table

#: Pairs named in the lists of the gentlest and the harshest.
_NAMED = 8

#: Limits of slowdown that people ask for.
_LIMITS = (1.1, 1.2, 1.5)


@dataclass(frozen=True)
class Facts:
    """What a matrix says in numbers; flagged values are left out.

    Attributes
    ----------
    pairs : pd.DataFrame
        One row an unordered pair whose both members have a trusted value: first, second, first_slowdown,
        second_slowdown, worst, stp.
    values : ndarray of float
        The trusted slowdowns, one a directed cell.
    """

    pairs: pd.DataFrame
    values: np.ndarray[tuple[int], np.dtype[np.float64]]


def facts(matrix: SlowdownMatrix) -> Facts:
    """Take the numbers out of a matrix that may be quoted."""
    trusted = (matrix.state == MEASURED) & ~np.isnan(matrix.slowdown)
    both = np.triu(trusted & trusted.T)
    first, second = np.nonzero(both)
    names = np.array(matrix.workloads, dtype=object)
    own, other = matrix.slowdown[first, second], matrix.slowdown[second, first]
    pairs = pd.DataFrame(
        {
            "first": names[first],
            "second": names[second],
            "first_slowdown": own,
            "second_slowdown": other,
            "worst": np.maximum(own, other),
            "stp": matrix.stp[first, second],
        }
    )
    return Facts(pairs.sort_values("worst", kind="stable", ignore_index=True), matrix.slowdown[trusted])


def sentences(matrix: SlowdownMatrix) -> list[str]:
    """Say in a few sentences what sharing costs here; the first one alone must be enough."""
    found = facts(matrix)
    where = f"on {matrix.gpu} under {matrix.mechanism}" if matrix.mechanism else f"on {matrix.gpu}"
    if not len(found.values):
        return [f"No trusted slowdown was measured {where}."]
    low, high = np.percentile(found.values, [5, 95])
    said = [
        f"Beside another job {where}, a job takes {slowdown(float(np.median(found.values)))} as long as alone in the "
        f"median; nine in ten lie between {slowdown(float(low))} and {slowdown(float(high))}."
    ]
    if len(found.pairs):
        gain = float(100 * (found.pairs["stp"] > 1).mean())
        typical = float(found.pairs["stp"].median())
        said.append(
            f"{gain:.0f} % of {_measured_pairs(matrix, found)} do more in the same time together than one after the "
            f"other; while both run, the median pair does in {100 / typical:.0f} min what takes 100 min in turns."
        )
        best, worst = found.pairs.iloc[0], found.pairs.iloc[-1]
        said.append(
            f"The gentlest pair is {_pair(best)}; the harshest is {_pair(worst)}."
            if len(found.pairs) > 1
            else f"The one pair is {_pair(best)}."
        )
    return said


def summary(matrices: Sequence[SlowdownMatrix]) -> list[str]:
    """Say in two sentences what sharing costs, on one GPU or on several."""
    measured = [(matrix, facts(matrix)) for matrix in matrices if matrix.n]
    measured = [(matrix, found) for matrix, found in measured if len(found.pairs)]
    if len(measured) <= 1:
        return [said for matrix, _ in measured for said in sentences(matrix)[:2]]
    mechanisms = {matrix.mechanism for matrix, _ in measured}
    under = f" under {mechanisms.pop()}" if len(mechanisms) == 1 else ""
    where = [matrix.gpu if under else f"{matrix.gpu} under {matrix.mechanism}" for matrix, _ in measured]
    found = [found for _, found in measured]
    costs = [f"{slowdown(float(np.median(one.values)))} on {at}" for one, at in zip(found, where, strict=True)]
    gains = [
        f"{100 * (one.pairs['stp'] > 1).mean():.0f} % of {len(one.pairs):,} on {at}"
        for one, at in zip(found, where, strict=True)
    ]
    return [
        f"Beside another job{under}, a job takes in the median {', '.join(costs)} as long as alone.",
        f"Pairs that do more in the same time together than one after the other: {', '.join(gains)}.",
    ]


def _measured_pairs(matrix: SlowdownMatrix, found: Facts) -> str:
    """Say of which pairs a share is: all that were measured, or those without a doubtful baseline."""
    state = matrix.state
    ran = np.isfinite(matrix.slowdown) & (state != NOT_MEASURED)
    every = int(np.triu(ran | ran.T).sum())
    if every <= len(found.pairs):
        return f"the {counted(len(found.pairs), 'measured pair')}"
    return f"the {counted(len(found.pairs), 'pair')} with sound baselines (of {every:,} measured)"


def _pair(row: pd.Series) -> str:
    return (
        f"{row['first']} ({slowdown(float(row['first_slowdown']))}) with {row['second']} "
        f"({slowdown(float(row['second_slowdown']))})"
    )


def section(matrices: Sequence[SlowdownMatrix]) -> Section | None:
    """Make the section; None where nothing was co-run."""
    shown = [co_run(matrix) for matrix in matrices if matrix.n]
    if not shown:
        return None
    blocks: list[Block] = []
    for matrix in shown:
        if len(shown) > 1:
            blocks.append(Heading(title=f"{matrix.gpu}, {matrix.mechanism}"))
        blocks += _blocks(matrix)
    return Section(key="interference", title="Who slows whom", blocks=tuple(blocks))


def co_run(matrix: SlowdownMatrix) -> SlowdownMatrix:
    """Leave out the workloads that were never co-run, and say so: their lines would be empty."""
    ran = matrix.state != NOT_MEASURED
    kept = ran.any(axis=0) | ran.any(axis=1)
    if kept.all():
        return matrix
    alone = int((~kept).sum())
    note = f"Left out: {counted(alone, 'workload')} with a solo measurement and no co-run on {matrix.gpu}."
    return replace(matrix.reordered(np.flatnonzero(kept)), notes=(*matrix.notes, note))


def _blocks(matrix: SlowdownMatrix) -> list[Block]:
    place = f"{matrix.gpu}, {matrix.mechanism}"
    blocks: list[Block] = [Text(sentences=(*sentences(matrix), *limits(matrix)))]
    if matrix.flagged:
        blocks.append(
            Notice(
                level="warning",
                sentence=f"The solo baseline of {counted(len(matrix.flagged), 'workload')} on {matrix.gpu} is "
                "doubtful; their values are marked, and left out of the sentences and lists.",
            )
        )
    blocks += [Notice(level="info", sentence=note) for note in matrix.notes]
    # From what a reader acts on to every single cell; the large chart last, so that it leaves no hole on paper.
    blocks += _extremes(matrix, place)
    partners = sensitivity_and_pressure(matrix)
    if partners["suffers"].notna().sum() > 1:
        blocks.append(figure(f"Who suffers and who hurts, {place}", sensitivity_pressure(partners)))
    blocks.append(_by_workload(partners, place))
    if len(matrix.workloads) <= MOST:
        blocks.append(figure(f"Slowdown of the row beside the column, {place}", slowdown_heatmap(matrix)))
    blocks.append(matrix_block(matrix))
    return blocks


def basis(matrix: SlowdownMatrix) -> str:
    """Say what stands behind a matrix."""
    kind = "simulated" if matrix.simulated else "measured"
    return (
        f"{counted(matrix.n, 'run')} of two jobs of {counted(len(matrix.workloads), 'workload')}, "
        f"{counted(matrix.sources, 'file')}, {kind}. Row: who is slowed; column: by whom. Repeats as their median, the "
        "diagonal as the mean of both members."
    )


def matrix_block(matrix: SlowdownMatrix) -> Matrix:
    """Make the block that holds every cell."""
    return Matrix.model_validate(
        {
            "title": f"Slowdown on {matrix.gpu} under {matrix.mechanism}",
            "gpu": matrix.gpu,
            "mechanism": matrix.mechanism,
            "workloads": matrix.workloads,
            **{name: plain(getattr(matrix, name)) for name in ("slowdown", "low", "high", "stp", "state", "runs")},
            "caption": basis(matrix),
        }
    )


def _by_workload(partners: pd.DataFrame, place: str) -> Table:
    """How much each workload suffers and how much it hurts."""
    rows = partners.sort_values("suffers", ascending=False, kind="stable", na_position="last")
    rows["flagged"] = rows["flagged"].astype(object).where(rows["flagged"], None)
    columns = columns_of(
        "workload", "suffers", "suffers_low", "suffers_high", "hurts", "hurts_low", "hurts_high", "partners",
        "failed/partners", "flagged", suffers={"low": "suffers_low", "high": "suffers_high"},
        hurts={"low": "hurts_low", "high": "hurts_high"},
    )  # fmt: skip
    caption = (
        "Median over partners, with the smallest and the largest value; rows with a doubtful solo baseline count for "
        "nothing."
    )
    return table(f"How much each workload suffers and hurts, {place}", rows, columns, caption=caption)


def _extremes(matrix: SlowdownMatrix, place: str) -> list[Block]:
    pairs = facts(matrix).pairs
    if len(pairs) <= 2:
        return []
    named = min(_NAMED, len(pairs) // 2)
    pairs = pairs.assign(together=100 / pairs["stp"])
    columns = columns_of("first/job", "first_slowdown", "second", "second_slowdown", "together")
    caption = "Ordered by the slowdown of the member that suffers more. Minutes together: for what takes 100 in turns."
    return [
        table(f"The gentlest pairs, {place}", pairs.head(named), columns, caption=caption),
        table(f"The harshest pairs, {place}", pairs.tail(named).iloc[::-1], columns, caption=caption),
    ]


def limits(matrix: SlowdownMatrix) -> list[str]:
    """Say how many pairs keep both members within the usual limits; nothing where no pair was measured."""
    worst = facts(matrix).pairs["worst"]
    if worst.empty:
        return []
    parts = [f"{int((worst <= most).sum()):,} within {significant(most)} x" for most in _LIMITS]
    return [
        f"Of {counted(len(worst), 'pair')}, {', '.join(parts[:-1])} and {parts[-1]} for both jobs. Whether a pair "
        "fits in memory is another question."
    ]
