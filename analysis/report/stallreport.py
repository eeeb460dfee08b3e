"""The stall report: what one workload's warps wait for, kernel by kernel, on every GPU it was profiled on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from analysis.charts.stall_heatmap import stall_heatmap
from analysis.errors import NotFoundError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.interference.finding import counted, named
from analysis.report.basis import choice, command, loading, moment, provenance, software, source_entries
from analysis.report.build import chosen_contents
from analysis.report.document import Block, ReportDocument, Section, Text
from analysis.report.sections import stalls
from analysis.report.table import columns_of, figure, table
from analysis.stalls.kernels import kernel_table, longest_first, parts_of_time
from analysis.stalls.shares import stall_shares, unavailable
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.queries import sources

CONTENTS = {
    "stalls": "what the job waits for",
    "kernels": "which kernels matter, and what each waits for",
    "rows": "every reason of every kernel",
}

#: Kernels named one by one; their times add up to nearly all in any job.
_KERNELS = 40

_KERNEL_COLUMNS = columns_of(
    "short_name", "gpu", "time_share", "launches", "mean_us", "kind", "reason/largest", "reason_share", "grid"
)
_NAME_COLUMNS = columns_of("short_name", "grid", "block", "kernel")
_ROW_COLUMNS = columns_of(
    "short_name", "gpu", "grid", "block", "reason", "group", "share", "cycles", "accounted", "launches", "kernel"
)


def stall_report(
    database: Database,
    dataset: str,
    workload: str,
    *,
    gpus: Sequence[str] = (),
    contents: Sequence[str] = (),
    now: datetime | None = None,
) -> ReportDocument:
    """Report on the stalls of one workload.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, workload : str
        Which job.
    gpus : sequence of str, optional
        Only these, by any name.
    contents : sequence of str, optional
        Keys of `CONTENTS`; by default all but the rows.
    now : datetime, optional
        When the report is made; by default now.

    Raises
    ------
    NotFoundError
        If the data set or the workload is not there, or was not profiled.
    """
    kept = chosen_contents(contents, CONTENTS)
    chosen = choice(database, dataset, gpus).with_(workloads=(workload,))
    shares, bounds = stall_shares(database, chosen), verdicts(database, chosen)
    if shares.empty:
        raise NotFoundError(
            f"data set {dataset} has no stall profile of {workload!r}{f' on {named(gpus)}' if gpus else ''}",
            f"Profile it alone with `{COMMAND}`, or choose another.",
        )
    lacking = unavailable(database, chosen)
    parts: list[Section | None] = [stalls.section(shares, bounds, lacking) if "stalls" in kept else None]
    of_kernels = stall_shares(database, chosen, "kernel")
    if "kernels" in kept:
        parts.append(_kernels(kernel_table(database, chosen), longest_first(database, chosen, of_kernels, "kernel")))
    if "rows" in kept:
        made = table("Every reason of every kernel", of_kernels, _ROW_COLUMNS)
        parts.append(Section(key="rows", title="Every reason of every kernel", blocks=(made,)))
    files = sources.sources(database, chosen.with_(gpus=(), workloads=()))
    used = sorted({str(name) for name in bounds["gpu"]})
    return ReportDocument(
        kind="stalls",
        title=workload,
        subtitle=f"What this job waits for on {named(used)}",
        created_at=moment(now),
        provenance=provenance(shares["simulated"]),
        summary=(
            *(f"On {row['gpu']}: {row['sentence']}" for row in bounds.to_dict("records")),
            *parts_of_time(database, chosen),
        ),
        filters=(chosen.sentence(),),
        sections=tuple(part for part in parts if part is not None),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            loading(dataset, files),
            f"stallscope stalls --dataset {shlex.quote(dataset)} --workload {shlex.quote(workload)} --by kernel",
            command("stalls", dataset, job=[workload], gpu=gpus, contents=contents),
        ),
    )


def _kernels(kernels: pd.DataFrame, shares: pd.DataFrame) -> Section:
    rows = kernels.head(_KERNELS).assign(mean_us=kernels["mean_ns"] / 1000)
    known = float(rows["time_share"].sum())
    said = f"{counted(len(kernels), 'kernel')} (a name at one grid and block size)"
    if len(kernels) > _KERNELS:
        said += f"; the {_KERNELS} listed here take {known:.0f} % of the GPU time that is known"
    blocks: list[Block] = [Text(sentences=(f"{said}.",))]
    parts = {str(gpu): part for gpu, part in shares.groupby("gpu", sort=False)} if len(shares) else {}
    for gpu, part in parts.items():
        blocks.append(figure(f"What each kernel waits for on {gpu}", stall_heatmap(part, most=25)))
    caption = "Of several files of one job the one with the most time counts for a kernel; shares are of warp cycles."
    blocks.append(table("The kernels, those with the most time first", rows, _KERNEL_COLUMNS, caption=caption))
    names = rows.drop_duplicates(["kernel", "grid", "block"])
    blocks.append(table("Their full names", names, _NAME_COLUMNS))
    return Section(key="kernels", title="Which kernels matter", blocks=tuple(blocks))
