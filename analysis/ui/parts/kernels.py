"""Parts of the Kernels page: the table of all kernels, and the way down to one kernel, one launch, its rows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.comparison_bars import comparison_bars
from analysis.charts.roofline import roofline_chart
from analysis.charts.stall_bars import stall_bars
from analysis.charts.theme import alt_text, reason_title
from analysis.numbers import shorten, significant, visible
from analysis.reference import stall_reasons
from analysis.stalls.kernels import RULES, first_things
from analysis.stalls.roofline import COMMAND, Roofline, roofline
from analysis.stalls.shares import stall_shares, unavailable
from analysis.stalls.verdict import verdicts
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import kernels as queries
from analysis.store.queries import profiles
from analysis.ui.shell import frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database, theme
from analysis.ui.shell.search import search

COLUMNS: dict[str, Any] = configured(
    "dataset", "workload", "gpu", "kernel", "short_name", "grid", "block", "kernel_id", "reason", "group", "share",
    "cycles", "total", "accounted", "launches", "kernels", "kind", "stall_family", "weight", "profiled", "sources",
    "files", "simulated", "sentence", "top_reason", "top_share", "other", "other_gpu", "side", "share_base",
    "share_other", "difference", "cycles_base", "cycles_other", "cycles_difference", "state/reported",
    "launches_base", "launches_other", "time_base_ns", "time_other_ns", "slower", "text/rule", "title/resource",
    "share_solo", "share_corun", "samples_solo", "samples_corun", "grew", "use", "counter", "wait", "leans", "beside",
    "slowdown", "low", "high", "origin", "runs", "mechanism", "model/trained", "time_ms", "mean_us", "time_share",
    "largest", "reason_share", "reason_from", "stalled", "flop", "bytes", "intensity", "gflops", "gbps", "bound",
    "file_name", "line", "section", "metric", "value/exact", "unit", "launch_id", "process_id", "duration_ns",
    "invocations", "format", workload={"pinned": True}, other={"pinned": True},
)  # fmt: skip


#: Keys, and parameters in the address, of the levels below the table.
KERNEL, LAUNCH = "kernel", "launch"

#: Rows that go to the browser, and bars in the picture.
MOST_ROWS, MOST_BARS, MOST_LAUNCHES = 2000, 15, 30

_SHOWN = [
    "short_name", "largest", "reason_share", "time_ms", "time_share", "mean_us", "launches", "reason_from", "kind",
    "accounted", "workload", "gpu", "grid", "block", "kernel",
]  # fmt: skip

_COLUMNS: dict[str, Any] = {**COLUMNS, **configured("short_name", "workload", short_name={"pinned": True})}


def sentence(table: pd.DataFrame, *, searched: bool = False) -> str:
    """Say which kernel takes the most time and what it waits for, or what it takes to know.

    Parameters
    ----------
    table : pd.DataFrame
        Rows of `analysis.stalls.kernels.kernel_table`.
    searched : bool
        Whether the rows are the hits of a search, of which the sentence then speaks.
    """
    if table.empty:
        return "**No kernel** holds what is searched for."
    timed = table[table["time_ns"].notna()]
    if timed.empty:
        return (
            f"**{frame.count(len(table), 'kernel')}**, but no profile here holds durations, so which of them matter is "
            "open: add `gpu__time_duration.sum` to the metrics, or a time trace of the same job."
        )
    first = timed.iloc[0]
    name = markdown.plain(first["short_name"], 60)
    among = f"Of the {frame.count(len(table), 'kernel')} found, " if searched else ""
    text = f"{among}**{name}** takes the most GPU time: **{significant(first['time_ns'] / 1e6)} ms**"
    if searched or timed["workload"].nunique() > 1:
        text += f", {significant(first['time_share'])} % of that of {markdown.plain(first['workload'])}"
    else:
        shares = timed["time_share"].cumsum()
        most = min(int((shares < 80).sum()) + 1, len(timed))
        verb = "makes" if most == 1 else "make"
        own = int((table["workload"] == first["workload"]).sum())
        text += f", {significant(first['time_share'])} % of the job's; {most} of its {own:,} kernels {verb} up 80 %"
    return f"{text}. {cause(first)}"


def cause(row: pd.Series) -> str:
    """Say what a kernel mainly waits for, and from where that is known."""
    if row["reason"] is None or pd.isna(row["reason_share"]):
        return "What it waits for is not known: its profile holds no stall reasons."
    origin = " (by rule text only; the other reasons are unknown)" if row["reason_from"] == RULES else ""
    return (
        f"Its main stall reason is **{markdown.plain(reason_title(row['reason']))}** "
        f"({stall_reasons.group_of(str(row['reason']))}): **{significant(row['reason_share'])} %** of its warp "
        f"cycles{origin}."
    )


def listing(table: pd.DataFrame) -> pd.DataFrame:
    """Show the kernels as bars and as a table to search, sort and choose from; return those that the search leaves."""
    shown = search(
        readable(table), ("workload", "gpu", "short_name", "kernel", "largest", "kind"), "find", address=True
    )
    timed = shown[shown["time_share"].notna()].head(MOST_BARS)
    several = timed["workload"].nunique() > 1
    if len(timed):
        named = timed.assign(
            name=[
                f"{shorten(row['workload'], 14) + ' · ' if several else ''}{shorten(row['short_name'], 24)}"
                for row in timed.to_dict("records")
            ]
        )
        figure = comparison_bars(
            named, label="name", value="time_ms", title="GPU time of all its launches, ms", unit=" ms", theme=theme()
        )
        frame.chart(figure, name="kernel-time", alt=alt_text(figure), table=named[_SHOWN], columns=_COLUMNS)
    first = "the most GPU time first" if shown["time_ms"].notna().any() else "the most launches first"
    st.markdown(f"**{frame.count(len(shown), 'kernel')}**, {first}. Choose a row to open it.")
    listed = shown.head(MOST_ROWS).reset_index(drop=True)
    keys = [str(key) for key in listed["key"]]
    table_key = frame.rows_key("kernels-table", keys)
    st.dataframe(
        listed[_SHOWN], hide_index=True, column_config=_COLUMNS, placeholder="–", key=table_key,
        on_select=lambda: _choose(table_key, KERNEL, keys), selection_mode="single-row", alt="kernels",
    )  # fmt: skip
    if len(shown) > MOST_ROWS:
        st.caption(f"{len(shown) - MOST_ROWS:,} more; search, or ask `stallscope kernels --json` for all.")
    frame.download(shown[_SHOWN], name="kernels")
    return shown


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """Add columns in the units that people read."""
    extra = {name: "" for name in ("kernel", "grid", "block") if name not in table}
    return table.assign(
        time_ms=table["time_ns"] / 1e6,
        mean_us=table["mean_ns"] / 1e3,
        largest=["" if name is None else reason_title(name) for name in table["reason"]],
        **extra,
    )


def pick(table: pd.DataFrame) -> pd.Series | None:
    """Ask for a kernel by name, which also gives the choice its address."""
    names: dict[str, str] = {}
    for key, workload, short, grid in table[["key", "workload", "short_name", "grid"]].itertuples(index=False):
        # The end of the key tells kernels apart whose template arguments alone differ.
        names[str(key)] = f"{shorten(visible(str(short)), 60)} {grid} · {workload} · {str(key)[:6]}"
    held = st.session_state.get(KERNEL)
    if held is not None and held not in names:  # a search leaves it out
        held = st.session_state[KERNEL] = None
    kept = list(names)[:MOST_ROWS]
    kept += [held] if held in names and held not in kept else []
    chosen = st.selectbox(
        "Kernel", kept, index=None, key=KERNEL, format_func=lambda key: names.get(key, key), placeholder="Choose one",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    rows = table[table["key"] == chosen]
    return rows.iloc[0] if len(rows) else None


def kernel(chosen: Filter, row: pd.Series) -> None:
    """Open one kernel: what it is, what it waits for, its launches."""
    own = chosen.with_(
        datasets=(str(row["dataset"]),), workloads=(str(row["workload"]),), gpus=(str(row["gpu"]),)
    )  # fmt: skip
    st.subheader(markdown.plain(row["short_name"], 90), anchor=False)
    st.code(visible(str(row["kernel"])), language=None, wrap_lines=True)
    cells = st.columns(4)
    cells[0].metric("Launches", f"{row['launches']:,}")
    cells[1].metric("GPU time", "–" if pd.isna(row["time_ns"]) else f"{significant(row['time_ns'] / 1e6)} ms")
    cells[2].metric("Of the job's", "–" if pd.isna(row["time_share"]) else f"{significant(row['time_share'])} %")
    cells[3].metric("Grid · block", f"{row['grid'] or '–'} · {row['block'] or '–'}")
    given = cached(verdicts, database(), own, "kernel")
    given = given[_same(given, row)]
    if len(given):
        st.markdown(markdown.sentence(str(given["sentence"].iloc[0])))
        if given["helps"].iloc[0]:
            helps = markdown.sentence(str(given["helps"].iloc[0]))
            st.markdown(f":material/build: **What usually helps:** {helps}")
    else:
        st.markdown(cause(row))
        _rule_texts(own, row)
    place = (str(row["kernel"]), str(row["grid"]), str(row["block"]))
    launches = cached(queries.launches, database(), own, *place)
    _bars(own, row)
    st.markdown(
        f"**{frame.count(len(launches), 'launch', 'launches')}** in the files. Choose a row to see its metrics."
    )
    numbers = [str(number) for number in launches["kernel_id"]]
    table_key = frame.rows_key("launches", numbers)
    st.dataframe(
        launches, hide_index=True, column_config=COLUMNS, placeholder="–", key=table_key,
        on_select=lambda: _choose(table_key, LAUNCH, numbers), selection_mode="single-row",
        alt="launches",
    )  # fmt: skip
    frame.download(launches, name="launches")
    chosen_launch = st.selectbox(
        "Launch", numbers, index=None, key=LAUNCH, placeholder="Choose one", bind="query-params",
        persist_state="session", width=320,
    )  # fmt: skip
    if chosen_launch in numbers:
        launch(int(str(chosen_launch)))


def launch(number: int) -> None:
    """Show the rows of the file that one launch was read from."""
    one = cached(queries.launch, database(), number)
    rows = cached(queries.rows, database(), number)
    st.subheader(f"Launch {one['launch_id'] or number}: its rows in the file", anchor=False)
    where = f"{one['file_name']}, format {one['format']}"
    line = "" if pd.isna(one["line"]) else f", from line {int(one['line']):,}"
    st.caption(f"{markdown.plain(where, 200)}{line}. Values are in base units; n/a stays empty.")
    frame.data(
        rows.drop(columns=["file_name"]), name=f"launch-{number}", columns={**COLUMNS, **configured("text/printed")}
    )


def roof(chosen: Filter) -> Roofline:
    """Show the roofline, or which counters it lacks and the command that gets them."""
    found = cached(roofline, database(), chosen)
    frame.subheading("Roofline")
    st.markdown(markdown.sentence(found.sentence()))
    if len(found.points):
        figure = roofline_chart(found.points, found.peaks, theme=theme())
        shown = found.points.drop(columns=["key"])
        frame.chart(figure, name="roofline", alt=alt_text(figure), table=shown, columns=COLUMNS)
        absent = sorted(set(found.points["gpu"].astype(str)) - set(found.peaks.index.astype(str)))
        notes = ["Roofs: single-precision multiply-adds on all lanes at boost clock, and the DRAM bandwidth."]
        notes += [f"The peaks of {', '.join(absent)} are not known, so there is no roof."] if absent else []
        notes += ["Operations of tensor cores are not counted."]
        st.caption(markdown.plain(" ".join(notes), 500))
    else:
        st.caption("This command gets what a roofline needs:")
        st.code(COMMAND, language="sh", wrap_lines=True)
    return found


def _bars(own: Filter, row: pd.Series) -> None:
    """Draw what the kernel waits for, as a whole and launch by launch."""
    place = (str(row["kernel"]), str(row["grid"]), str(row["block"]))
    shares, launches = cached(_of_kernel, database(), own, *place)
    if shares.empty:
        return
    unit = "cycles" if shares["cycles"].notna().any() else "share"
    missing = cached(unavailable, database(), own)
    figure = stall_bars(launches, unit=unit, unavailable=missing, theme=theme(), most=MOST_LAUNCHES)
    frame.chart(figure, name="launch-stalls", alt=alt_text(figure), table=launches, columns=COLUMNS)
    with st.expander("The kernel as a whole", icon=":material/table_rows:"):
        frame.data(shares, name="kernel-stalls", columns=COLUMNS)


def _of_kernel(opened: Database, own: Filter, kernel: str, grid: str, block: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the stall shares of one kernel, as a whole and by its first launches."""
    row = pd.Series({"kernel": kernel, "grid": grid, "block": block})
    whole, each = (stall_shares(opened, own, by) for by in ("kernel", "launch"))
    launches = first_things(each[_same(each, row)], "launch", MOST_LAUNCHES)
    return whole[_same(whole, row)].reset_index(drop=True), launches.reset_index(drop=True)


def _rule_texts(own: Filter, row: pd.Series) -> None:
    rules = cached(profiles.rules, database(), own)
    texts = rules[(rules["kernel"] == row["kernel"]) & rules["text"].notna()]
    if len(texts):
        shown = texts[["rule", "kind", "text", "file_name", "rule_line"]]
        settings = {**COLUMNS, **configured("kind/rule", "rule/profiler", "rule_line")}
        frame.data(shown, name="rules-of-kernel", columns=settings)


def _same(frame_of: pd.DataFrame, row: pd.Series) -> pd.Series:
    same = pd.Series(True, index=frame_of.index)
    for name in ("kernel", "grid", "block"):
        same &= frame_of[name].astype(str) == str(row[name])
    return same


def _choose(table: str, key: str, values: list[str]) -> None:
    rows = st.session_state[table]["selection"]["rows"]
    if rows and rows[0] < len(values):
        st.session_state[key] = values[rows[0]]
