"""The runs themselves, member by member: only in a report whose maker asked for them."""

from __future__ import annotations

import pandas as pd

from analysis.interference.finding import counted
from analysis.report.document import Section, Text
from analysis.report.table import columns_of, table

_COLUMNS = columns_of(
    "run_id", "gpu", "mechanism", "workload/job", "beside", "outcome", "slowdown", "solo_value", "corun_value",
    "unit", "thread_percentage", "flags", "file_name", "line",
)  # fmt: skip


def section(members: pd.DataFrame) -> Section | None:
    """Make the section of the members of runs, as `analysis.store.queries.coruns.members` gives them."""
    if members.empty:
        return None
    together = members.groupby("run_id")["workload"].transform(lambda names: [tuple(names)] * len(names))
    beside = []
    for own, names in zip(members["workload"], together, strict=True):
        others = list(names)
        others.remove(own)
        beside.append(", ".join(map(str, others)))
    rows = members.assign(beside=beside)
    said = (
        f"{counted(len(rows), 'member')} of {counted(int(rows['run_id'].nunique()), 'run')}, as they were read. Other "
        "parts of this report are aggregates; these rows are here because whoever made it asked for them."
    )
    made = table("Every member of every run", rows.astype(object).where(rows.notna(), None), _COLUMNS)
    return Section(key="rows", title="The runs themselves", blocks=(Text(sentences=(said,)), made))
