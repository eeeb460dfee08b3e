"""Parts of the Stalls page: the verdicts in a sentence and a table, what all jobs wait for, and one job opened up."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from analysis.charts.overlap import overlap_bars
from analysis.charts.stall_bars import stall_bars
from analysis.charts.stall_heatmap import stall_heatmap
from analysis.charts.theme import alt_text, reason_title
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.numbers import capital, significant
from analysis.predict.advise import alongside
from analysis.reference.stall_families import BY_NAME
from analysis.stalls import resources
from analysis.stalls.kernels import first_things, in_order, parts_of_time, times_of
from analysis.stalls.shares import ENOUGH_ACCOUNTED, KEYS, by_family, stall_shares, unavailable
from analysis.stalls.verdict import verdicts
from analysis.stalls.weights import SENTENCES
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles
from analysis.ui.parts.kernels import COLUMNS
from analysis.ui.shell import filters, frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database, drawn, theme

#: Key, and parameter in the address, of the job that is opened up.
JOB = "job"
UNITS = {"share": "Share of warp cycles", "cycles": "Cycles per issued instruction"}
LEVELS = {"name": "Kernel name", "kernel": "Kernel and size", "launch": "Launch"}

#: Kernels or launches in a picture, and in the table below it; the command line gives all.
MOST_DRAWN, MOST_LISTED = 25, 60


def sentence(table: pd.DataFrame) -> str:
    """Answer in a sentence: the verdict of the one job, or how many of which kind and the most extreme."""
    if len(table) == 1:
        row = table.iloc[0]
        name, gpu = markdown.plain(row["workload"]), markdown.plain(row["gpu"])
        return f"**{name}** on {gpu}. {markdown.sentence(row['sentence'])}"
    kinds = table["kind"].value_counts()
    parts = [f"{count} {kind}" for kind, count in kinds.items() if kind != "unknown"]
    unknown = int(kinds.get("unknown", 0))
    parts += [f"{unknown} without a verdict"] if unknown else []
    text = f"**{len(table)} profiles**: {', '.join(parts)}."
    known = table[table["share"].notna() & (table["kind"] != "unknown")]
    if known.empty:
        return text
    worst = known.sort_values("share", ascending=False, kind="stable").iloc[0]
    reason = f", mostly {reason_title(worst['reason']).lower()}" if worst["reason"] else ""
    return (
        f"{text} {markdown.plain(worst['workload'])} on {markdown.plain(worst['gpu'])} is the clearest case: "
        f"{markdown.plain(worst['kind'])}, {significant(worst['share'])} % of its warp cycles{reason}."
    )


def overview(chosen: Filter) -> None:
    """Show one bar a job; a chart for each family of metrics, as families have no common axis."""
    shares = cached(stall_shares, database(), chosen, "workload")
    unit = _unit(bool(shares["cycles"].notna().any()), "unit", "share")
    missing = cached(unavailable, database(), chosen)
    parts = by_family(shares)
    for family, part in parts:
        own = unit if part["cycles"].notna().any() else "share"
        if len(parts) > 1:
            st.markdown(f"**{markdown.plain(capital(BY_NAME[family].title))}**")
        figure = drawn(partial(stall_bars, part, unit=own, unavailable=missing, theme=theme()), family, own, chosen)
        frame.chart(figure, name=f"stall-shares-{family}", alt=alt_text(figure), table=part, columns=COLUMNS)
        if own != unit:
            st.caption("This family of metrics does not count cycles per issued instruction, so it stays in shares.")
    st.caption(weighting(shares))


def weighting(shares: pd.DataFrame) -> str:
    """Say what the launches are weighted by and which part of the GPU time the profiles stand for."""
    first = shares.drop_duplicates(["dataset", "workload", "gpu"])
    kinds = [name for name in SENTENCES if name in set(first["weight"])]
    weights = [SENTENCES[name] for name in kinds]
    if len(kinds) > 1:
        jobs = {name: ", ".join(first.loc[first["weight"] == name, "workload"].astype(str).head(4)) for name in kinds}
        weights = [f"{markdown.plain(jobs[name], 120)}: {SENTENCES[name]}" for name in kinds]
    known = first["profiled"].dropna()
    if known.empty:
        profiled = "Which share of the GPU time they stand for is unknown, as no time trace of the same job is loaded."
    else:
        low, high = significant(known.min()), significant(known.max())
        span = f"{low} %" if low == high else f"{low} to {high} %"
        rest = "" if len(known) == len(first) else f" in the {len(known)} jobs with a time trace"
        profiled = f"They stand for {span} of the GPU time{rest}."
    return " ".join([*weights, profiled])


def job(chosen: Filter) -> None:
    """Open one job up: its verdict, its kernels by reasons, what helps."""
    table = cached(verdicts, database(), chosen, "workload")
    keys = table[["dataset", "workload", "gpu"]].astype(str).to_numpy().tolist()
    places = {f"{workload} · {gpu}": (dataset, workload, gpu) for dataset, workload, gpu in keys}
    st.subheader("One job, kernel by kernel", anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Job", list(places), key=JOB, bind="query-params", persist_state="session", width=420)
        by = st.segmented_control(
            "A bar for each", list(LEVELS), default="name", required=True, format_func=LEVELS.__getitem__,
            key="level", bind="query-params", persist_state="session",
        )  # fmt: skip
        by = str(by or "name")
        if name not in places:
            return
        dataset, workload, gpu = places[name]
        own = chosen.with_(datasets=(dataset,), workloads=(workload,), gpus=(gpu,))
        shares, every, timed = cached(_listed, database(), own, by)
        unit = _unit(bool(shares["cycles"].notna().any()), "kernel-unit", "cycles")
    row = table[(table["workload"] == workload) & (table["gpu"] == gpu)].iloc[0]
    if len(table) > 1:
        st.markdown(markdown.sentence(row["sentence"]))
    if row["helps"]:
        st.markdown(f":material/build: **What usually helps:** {markdown.sentence(row['helps'])}")
    if shares.empty:
        return
    missing = cached(unavailable, database(), own)
    draw = partial(stall_bars, shares, unit=unit, unavailable=missing, theme=theme(), most=MOST_DRAWN)
    figure = drawn(draw, "bars", by, unit, own)
    frame.chart(figure, name=f"stalls-by-{by}", alt=alt_text(figure), table=shares, columns=COLUMNS)
    order = " The ones with the most GPU time first." if timed else ""
    plain = "" if shares["cycles"].notna().any() else " These metrics give shares, no cycles per issued instruction."
    st.caption(f"{weighting(shares)}{order}{plain}")
    if every > MOST_LISTED:
        st.caption(f"The first {MOST_LISTED} of {every:,} are listed; `stallscope stalls --by {by} --json` has all.")
    st.markdown("**The same as a heatmap, kernels by reasons**")
    absent = _columns(missing.get(gpu, ()), shares)
    draw = partial(stall_heatmap, shares, unavailable=absent, theme=theme(), most=MOST_DRAWN)
    figure = drawn(draw, "heatmap", by, own)
    frame.chart(figure, name="kernels-by-reasons", alt=alt_text(figure), table=shares, columns=COLUMNS)


def _listed(opened: Database, own: Filter, by: str) -> tuple[pd.DataFrame, int, bool]:
    """Return the shares of what is listed, how many there are, and whether times put them in order.

    A million rows are not copied for a page of them.
    """
    shares = stall_shares(opened, own, by)
    times = times_of(opened, own, shares, by)
    shares = in_order(shares, times, by)
    count = int(shares.groupby(KEYS[by], sort=False, dropna=False).ngroups) if len(shares) else 0
    return first_things(shares, by, MOST_LISTED), count, bool(times.notna().any())


def _half_open(opened: Database, chosen: Filter) -> pd.DataFrame:
    """Return the kernels whose reasons sum to less than half of their warp cycles, the least first."""
    kernels = stall_shares(opened, chosen, "kernel").drop_duplicates(KEYS["kernel"])
    return kernels[kernels["accounted"] < HALF].sort_values("accounted", kind="stable")


def verdict_table(table: pd.DataFrame) -> None:
    """Show all verdicts."""
    columns = ["workload", "gpu", "kind", "share", "accounted", "launches", "simulated", "sentence"]
    frame.data(table[columns], name="verdicts", columns=COLUMNS)


def caveats(table: pd.DataFrame, chosen: Filter) -> list[str]:
    """Say which profiles, and which of their kernels, explain too little of their warp cycles."""
    low = table[table["accounted"] < ENOUGH_ACCOUNTED]
    said = [
        f"{row['workload']} on {row['gpu']}: the reported reasons account for {significant(row['accounted'])} % of the "
        "warp cycles; the rest is drawn as unaccounted."
        for row in low.to_dict("records")
    ]
    said += cached(parts_of_time, database(), chosen)
    half = cached(_half_open, database(), chosen)
    for (workload, gpu), rows in half.groupby(["workload", "gpu"], sort=False):
        each = ", ".join(
            f"{row['short_name']} {significant(row['accounted'])} %" for row in rows.head(4).to_dict("records")
        )
        more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
        said.insert(
            0,
            f"{workload} on {gpu}: in {frame.count(len(rows), 'kernel')} the reasons sum to less than {HALF:g} % of "
            f"the warp cycles ({each}{more}), so they get no verdict.",
        )
    return said


def rule_texts(chosen: Filter) -> pd.DataFrame:
    """Return the top reasons that the profiler's rules name, for profiles that hold no stall metrics."""
    rules = cached(profiles.rules, database(), chosen)
    named = rules[rules["top_reason"].notna()]
    columns = ["workload", "gpu", "short_name", "top_reason", "top_share", "duration_ns", "file_name", "rule_line"]
    return named[columns].sort_values("duration_ns", ascending=False, kind="stable").reset_index(drop=True)


def show_rules(named: pd.DataFrame) -> None:
    """Show what only the rule texts say, marked as such, and the command that gets the rest."""
    st.subheader("Named by the profiler's rules only", anchor=False)
    st.caption(
        "These profiles hold no stall metrics. Their rule texts name the largest reason of some kernels; "
        "the other reasons are unknown, not zero. This command gets all of them:"
    )
    st.code(COMMAND, language="sh", wrap_lines=True)
    frame.data(
        named.assign(top_reason=[reason_title(name) for name in named["top_reason"]]),
        name="rule-texts",
        columns={**COLUMNS, **configured("rule_line")},
    )


#: Below this percentage of accounted warp cycles the reasons of a kernel say less than what they leave open.
HALF = 50.0


def _unit(has_cycles: bool, key: str, usual: str) -> str:
    if not has_cycles:
        return "share"
    picked = st.segmented_control(
        "Unit", list(UNITS), default=usual, required=True, format_func=UNITS.__getitem__, key=key,
        bind="query-params", persist_state="session",
    )  # fmt: skip
    return str(picked or usual)


def _columns(missing: tuple[str, ...], shares: pd.DataFrame) -> tuple[str, ...]:
    return tuple(name for name in missing if name not in set(shares["reason"]))


#: Keys, and parameters in the address.
WHERE, JOBS = "where", "together"

#: Jobs in one picture.
MOST_JOBS = 4

_STATES = {
    "over": "more than it has",
    "shared": "leaned on by several",
    "one": "leaned on by one",
    "free": "leaned on by none",
    "unknown": "not stated by every profile",
}


def pick(chosen: Filter) -> pd.DataFrame | None:
    """Ask for a GPU and the jobs on it; None while no GPU has two profiles."""
    lean = cached(resources.leaning, database(), chosen)
    if lean.empty:
        return None
    counts = lean.groupby("gpu")["workload"].nunique().sort_values(ascending=False, kind="stable")
    gpus = [str(gpu) for gpu in counts.index if counts[gpu] >= 2]
    if not gpus:
        return None
    gpu = filters.pick("GPU", gpus, key=WHERE)
    there = lean[lean["gpu"] == (gpu if gpu in gpus else gpus[0])]
    names = list(dict.fromkeys(there["workload"].astype(str)))
    picked = st.multiselect(
        "Jobs side by side", names, default=names[:2], key=JOBS, max_selections=MOST_JOBS, bind="query-params",
        persist_state="session", placeholder="Choose two or more",
    )  # fmt: skip
    return there[there["workload"].isin(picked)].reset_index(drop=True)


def costs(lean: pd.DataFrame) -> pd.DataFrame:
    """Return what the jobs pay beside each other, measured or predicted."""
    dataset, gpu = str(lean["dataset"].iloc[0]), str(lean["gpu"].iloc[0])
    jobs = tuple(dict.fromkeys(lean["workload"].astype(str)))
    return cached(alongside.pairwise, database(), dataset, gpu, jobs)


def answer(lean: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Say what they lean on together and what it costs."""
    return markdown.sentence(f"{resources.sentence(lean)} {alongside.sentence(pairs)}".strip(), 2000)


def show(lean: pd.DataFrame, pairs: pd.DataFrame) -> None:
    """Show the overlap, what it costs, and where to go on."""
    figure = overlap_bars(lean, limits=(resources.LEANS, resources.WAITS), theme=theme())
    frame.chart(figure, name="overlap", alt=alt_text(figure), table=lean, columns=COLUMNS)
    together = resources.overlap(lean).assign(state=lambda table: table["state"].map(_STATES))
    frame.subheading("Together")
    frame.data(
        together.drop(columns=["resource", "shared"]),
        name="together",
        columns={**COLUMNS, **configured("jobs/lean", "asked", "smallest_wait", "state")},
    )
    st.caption(
        f"A job leans on a resource from {resources.LEANS:g} % of its peak on; where no counter states its use, from "
        f"{resources.WAITS:g} % of warp cycles waiting for it on. A wait for the long scoreboard is for global or "
        "local memory: whether that is DRAM only the throughput of DRAM can say."
    )
    frame.subheading("What it costs them")
    frame.data(pairs, name="costs", columns=COLUMNS)
    known = pairs[pairs["origin"].isin([alongside.MEASURED, alongside.FAILED])]
    with st.container(horizontal=True):
        if len(known):
            row = known.iloc[0]
            query = {
                "slowed": str(row["workload"]),
                "beside": str(row["beside"]),
                "dataset": str(lean["dataset"].iloc[0]),
            }
            link("interference", "The runs behind it", **query)
        link("what-if", "Ask a model")


def side_by_side_caveats(lean: pd.DataFrame) -> list[str]:
    """Say whose waits cost nothing alone, and what the profiles don't state."""
    said = [
        f"The schedulers of {name} issue in most of their cycles: alone its waits are hidden behind other warps."
        for name in resources.hidden(lean)
    ]
    otherwise = resources.differently_counted(lean)
    said += [otherwise] if otherwise else []
    silent = lean[(lean["resource"] == "dram") & lean["use"].isna()]["workload"]
    if len(silent):
        said.append(
            f"{', '.join(map(str, silent))}: no DRAM throughput was counted; profile with `--section SpeedOfLight`."
        )
    return said
