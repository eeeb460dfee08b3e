"""What stands beside a prediction: measured runs that are most alike, what was measured of the set, what would help."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.predict.advise import changes as found_changes
from analysis.predict.advise.changes import Changes
from analysis.predict.explain.disagreement import Disagreement
from analysis.report.document import Block, Notice, Section, Text
from analysis.report.table import column, table

_RUNS = (
    column("jobs", "jobs"),
    column("slowdowns", "slowdown of each"),
    column("worst", "worst", "ratio"),
    column("stp", "STP", "number"),
    column("runs", "runs", "count"),
    column("difference", "difference", "number"),
    column("simulated", "simulated", "flag"),
)
_CHANGES = (
    column("kind", "change"),
    column("what", "what", "prose"),
    column("worst", "worst then", "ratio"),
    column("stp", "STP then", "number"),
    column("origin", "known by"),
    column("memory", "memory"),
)
_COMPARED = (
    column("workload", "job"),
    column("predicted", "predicted", "ratio", low="low", high="high"),
    column("low", "predicted, low", "ratio"),
    column("high", "predicted, high", "ratio"),
    column("measured", "measured", "ratio"),
    column("error", "error", "percent"),
    column("runs", "runs", "count"),
)


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
        columns = (column("number", "", "count"), column("command", "command", "prose"))
        blocks.append(table("How to measure it", rows, columns))
    return Section(key="to-measure", title="What to measure", blocks=tuple(blocks))
