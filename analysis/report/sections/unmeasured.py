"""What is said of jobs that were profiled and never co-run: a verdict on every pair, and what to measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.interference.finding import counted, named
from analysis.predict.advise.measure_next import command
from analysis.predict.advise.unmeasured import MOST_JOBS
from analysis.report.document import Block, Section, Text
from analysis.report.table import column, table

_PAIRS = (
    column("workload", "job"),
    column("beside", "beside"),
    column("slowdown", "job pays", "ratio"),
    column("slowdown_beside", "the other pays", "ratio"),
    column("memory", "memory"),
    column("evidence", "profiles tell"),
    column("verdict", "verdict"),
    column("why", "why", "prose"),
)
_WANTED = (column("what", "what, and how to measure it", "prose"), column("jobs", "of which jobs", "prose"))


def sentence(found: pd.DataFrame, gpu: str) -> str:
    """Say the verdicts on all pairs in one sentence."""
    counts = Counter(found["verdict"].astype(str))
    listed = named([f"{word} for {number}" for word, number in counts.most_common()])
    return f"On {gpu} none of {counted(len(found), 'pair')} ran together; the verdict is {listed}."


def summary(found: Sequence[tuple[str, pd.DataFrame]]) -> list[str]:
    """Say the verdicts on the pairs of all GPUs."""
    if len(found) <= 1:
        return [sentence(pairs, gpu) for gpu, pairs in found]
    every = pd.concat([pairs for _, pairs in found])
    counts = Counter(every["verdict"].astype(str))
    listed = named([f"{word} for {number}" for word, number in counts.most_common()])
    return [
        f"None of {counted(len(every), 'pair')} that could meet on {named([gpu for gpu, _ in found])} ran together; "
        f"the verdict is {listed}. Jobs profiled on different GPUs can't be judged together: profile them on one."
    ]


def section(places: Sequence[tuple[str, pd.DataFrame, Mapping[str, Sequence[str]]]]) -> Section | None:
    """Make the section.

    Parameters
    ----------
    places : sequence of (str, pd.DataFrame, mapping)
        For each GPU the pairs and what to measure, as `predict.unmeasured` gives them.
    """
    blocks: list[Block] = []
    for gpu, pairs, wanted in places:
        if pairs.empty:
            continue
        predicted = pairs["slowdown"].notna().any()
        basis = "Slowdowns of the white box, from stall profiles alone." if predicted else "No model answers here."
        jobs = pairs["workload"].nunique()
        cut = f" The first {MOST_JOBS} jobs." if jobs >= MOST_JOBS else ""
        lacking = [{"what": f"{what[:1].upper()}{what[1:]}", "jobs": named(list(of))} for what, of in wanted.items()]
        first, other = pairs["workload"].iloc[0], pairs["beside"].iloc[min(1, len(pairs) - 1)]
        blocks += [
            Text(sentences=(sentence(pairs, gpu),)),
            table(f"Every pair on {gpu}", pairs, _PAIRS, caption=f"{basis}{cut}"),
            table(f"What to measure on {gpu}", lacking, _WANTED),
            Text(sentences=(f"Two jobs together, for example: {command(str(first), str(other), 'CUDA MPS')}",)),
        ]
    if not blocks:
        return None
    return Section(key="unmeasured", title="What may share, and what to measure first", blocks=tuple(blocks))
