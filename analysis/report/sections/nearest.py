"""What stands beside a prediction: measured runs that are most alike, what was measured of the set, what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.interference.finding import counted, named
from analysis.predict.advise import changes as found_changes
from analysis.predict.advise.changes import Changes
from analysis.predict.advise.measure_next import command
from analysis.predict.advise.unmeasured import MOST_JOBS
from analysis.predict.explain.disagreement import Disagreement
from analysis.reference.mechanism_names import MPS
from analysis.report.document import Block, Notice, Section, Text
from analysis.report.table import column, columns_of, table

_RUNS = columns_of("jobs", "slowdowns", "worst", "stp", "runs", "difference/distance", "simulated")
_CHANGES = columns_of("kind/change", "what", "worst/then", "stp/then", "origin", "memory")
_COMPARED = columns_of(
    "workload/job", "predicted", "low/interval", "high/interval", "measured", "error", "runs",
    predicted={"low": "low", "high": "high"},
)  # fmt: skip


def measured(nearest: pd.DataFrame, compared: Sequence[Disagreement], where: str) -> Section:
    """Make the section of what was measured: the set itself, and the sets most like it."""
    blocks: list[Block] = []
    if compared:
        how = "simulated" if any(one.simulated for one in compared) else "measured"
        blocks += [
            Text(sentences=tuple(one.sentence for one in compared)),
            table(
                f"Predicted against {how}, {where}",
                [one.to_json() for one in compared],
                _COMPARED,
                caption="These runs may be among those that the model learned from: an agreement here is no test. Its "
                "error on runs it has not seen stands with the model.",
            ),
        ]
        blocks += [
            Notice(level="warning", sentence=f"{one.workload}: {doubt}.") for one in compared for doubt in one.doubts
        ]
    if len(nearest):
        blocks.append(
            table(
                f"The measured sets most like it, {where}",
                nearest.assign(simulated=nearest["simulated"].astype(object).where(nearest["simulated"], None)),
                _RUNS,
                caption="Difference 0 is the set itself; the same model with other settings counts below 1, another "
                "family 2, a job that is missing 1.5. Repeats as their median; clients without caps.",
            )
        )
    else:
        blocks.append(Text(sentences=(f"Nothing like it was measured {where}.",)))
    return Section(key="measured", title="What was measured", blocks=tuple(blocks))


def changes(found: Changes, limit: float) -> Section:
    """Make the section of the smallest changes that keep every job within a limit."""
    blocks: list[Block] = [Text(sentences=(found_changes.sentence(found, limit),))]
    if found.within:
        blocks.append(
            table(
                f"Changes that keep every job within {limit:g} x",
                [one.to_json() for one in found.within],
                _CHANGES,
                caption="The smallest kind of change first. What was measured counts before what is predicted.",
            )
        )
    return Section(key="changes", title=f"What would keep every job within {limit:g} x", blocks=tuple(blocks))


def to_measure(wanted: Sequence[str], commands: Sequence[str]) -> Section | None:
    """Make the section of what to measure for a better answer; None where nothing is missing."""
    if not wanted:
        return None
    blocks: list[Block] = [Text(sentences=tuple(f"{text[:1].upper()}{text[1:]}." for text in wanted))]
    if commands:
        rows = [{"number": number, "command": text} for number, text in enumerate(commands, start=1)]
        columns = (column("number", "", "count"), *columns_of("command"))
        blocks.append(table("How to measure it", rows, columns))
    return Section(key="to-measure", title="What to measure", blocks=tuple(blocks))


_PAIRS = columns_of("workload/job", "beside", "slowdown/job", "slowdown_beside", "memory", "evidence", "verdict", "why")
_WANTED = columns_of("what", "jobs/which")


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
            Text(sentences=(f"Two jobs together, for example: {command(str(first), str(other), MPS)}",)),
        ]
    if not blocks:
        return None
    return Section(key="unmeasured", title="What may share, and what to measure first", blocks=tuple(blocks))
