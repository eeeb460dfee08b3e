"""Asking for a cluster replay on a page, and showing what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts import cluster_replay as charts
from analysis.charts.theme import alt_text
from analysis.errors import CancelledError
from analysis.jobs.runner import Progress
from analysis.plan.replay import study
from analysis.plan.replay.arrivals import ARRIVALS
from analysis.plan.replay.figures import FIGURES
from analysis.plan.replay.policies import POLICIES
from analysis.plan.replay.study import Request, Study
from analysis.predict.predictors.registry import DEFAULT, PREDICTORS
from analysis.reference.columns import term
from analysis.store.database import Database
from analysis.ui.shell import access, filters, frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import database, jobs, theme

#: Kind of the job that the runner does.
REPLAY = "replay"

#: What the page shows before anybody asks: small enough to be there at once, so a cheap predictor decides.
QUICK_POLICIES = ("fifo-best", "random", "prediction", "oracle")
QUICK_PREDICTOR = "effects"
QUICK_LOADS, QUICK_JOBS = (0.75, 1.0, 1.25), 60

_COLUMNS: dict[str, Any] = configured(
    "title/policy", "load", "per_hour", "seeds/replays", "mean_jct_h", "mean_jct_h_low", "mean_jct_h_high",
    "median_jct_h", "p95_jct_h", "makespan_h", "mean_waiting_h", "mean_slowdown", "worst_slowdown", "violations",
    "shared", "gpu_hours",
)  # fmt: skip
_ARRIVALS = {"poisson": "Poisson", "at-once": "All at once", "bursts": "In bursts"}


def quick(opened: Database, dataset: str, gpu: str, mechanism: str | None) -> Study:
    """Replay a few small cases at once."""
    request = Request(
        dataset,
        {gpu: study.GPUS},
        QUICK_POLICIES,
        predictor=QUICK_PREDICTOR,
        mechanism=mechanism,
        loads=QUICK_LOADS,
        jobs=QUICK_JOBS,
    )
    return study.run(opened, request)


def form(dataset: str, gpus: list[str], mechanism: str | None) -> Request | None:
    """Ask what to replay; return the request once the user sends it."""
    with st.form("replay", border=True):
        left, right = st.columns([1, 1], gap="large")
        with left:
            chosen = st.multiselect(
                "Policies", list(POLICIES), default=list(QUICK_POLICIES), format_func=POLICIES.__getitem__,
                key="replay-policies", help="The utilisation rule needs each job's SM utilisation alone.",
            )  # fmt: skip
            predictor = st.selectbox(
                "Predictor", list(PREDICTORS), index=list(PREDICTORS).index(DEFAULT),
                format_func=lambda name: PREDICTORS[name].title, key="replay-predictor",
                help="It decides out of fold: it never saw the pair that it decides about.",
            )  # fmt: skip
            counts = {
                gpu: int(st.number_input(f"{gpu}: GPUs", 0, 500, study.GPUS if gpu == gpus[0] else 0, key=f"n-{gpu}"))
                for gpu in gpus[:6]
            }
        with right:
            arrivals = st.selectbox(
                "Jobs come", list(ARRIVALS), format_func=_ARRIVALS.__getitem__, key="replay-arrivals"
            )
            low, high = st.slider(
                "Load, relative to what exclusive use can carry", 0.25, 2.5, (0.75, 1.5), 0.25, key="replay-loads"
            )
            amount = st.number_input("Jobs of a replay", 10, 5000, study.JOBS, key="replay-jobs")
            hours = st.number_input("Mean length alone, hours", 0.1, 1000.0, 1.0, key="replay-hours")
            seeds = st.number_input("Seeds", 1, 100, 5, key="replay-seeds")
            slots = st.number_input("Jobs at once on a GPU", 1, 8, 2, key="replay-k")
        sent = st.form_submit_button(
            "Replay", type="primary", icon=":material/play_arrow:", disabled=not access.may_edit()
        )
    if not sent:
        return None
    steps = round((high - low) / 0.25)
    return Request(
        dataset, {gpu: count for gpu, count in counts.items() if count}, tuple(chosen), str(arrivals),
        loads=tuple(low + 0.25 * step for step in range(steps + 1)), jobs=int(amount), mean_length_s=3600.0 * hours,
        seeds=int(seeds), slots=int(slots), limit=filters.limit(), predictor=str(predictor), mechanism=mechanism,
    )  # fmt: skip


@access.editing
def submit(request: Request) -> str:
    """Queue the replays; return the job."""
    opened = database()
    plain_request = {name: value for name, value in asdict(request).items() if name != "trace"}
    return jobs().submit(REPLAY, plain_request, lambda progress: work(opened, request, progress))


def work(opened: Database, request: Request, progress: Progress) -> dict[str, Any]:
    """Replay; a cancel keeps the replays that are done."""
    found = study.run(opened, request, progress, stop=(CancelledError,))
    return {**as_result(found), "dataset": request.dataset}


def as_result(found: Study) -> dict[str, Any]:
    """Return what the page shows as plain values."""
    segments = found.segments.astype(object).to_dict("records")
    return {**found.to_json(), "sentence": study.sentence(found), "segments": segments}


def show(result: Mapping[str, Any]) -> None:
    """Show curves over load, the figures as a table, and who was on which GPU when."""
    table = pd.DataFrame(result["policies"])
    if result.get("cancelled"):
        done = len(result["runs"])
        st.info(f"Stopped: {done:,} of {result['planned']:,} replays are done and shown.", icon=":material/block:")
    if table.empty:
        return
    figure = st.selectbox(
        "Figure", list(FIGURES), key="replay-figure", width=260, format_func=lambda name: term(name).header,
    )  # fmt: skip
    drawn = charts.over_load(table, figure=str(figure), title=term(str(figure)).header, theme=theme())
    twin = table[[name for name in _COLUMNS if name in table]]
    frame.chart(drawn, name="replay-over-load", alt=alt_text(drawn), table=twin, columns=_COLUMNS)
    gantt(pd.DataFrame(result["segments"]))
    there = ", ".join(f"{count} {name}" for name, count in result["gpus"].items())
    frame.basis(
        there,
        frame.count(len(result["runs"]), "replay"),
        f"{result['capacity_per_hour']:.3g} jobs an hour can be carried without sharing",
        f"limit {result['limit']:g} x",
        simulated=bool(result["simulated"]),
    )
    frame.caveats(list(result["notes"]))


def gantt(segments: pd.DataFrame) -> None:
    """Show who was on which GPU when, under one of the policies."""
    if segments.empty:
        return
    frame.subheading("Who ran where")
    there = list(dict.fromkeys(segments["policy"]))
    first = there.index("prediction") if "prediction" in there else 0
    policy = st.selectbox(
        "Policy", there, index=first, format_func=lambda name: POLICIES[name], key="replay-gantt-policy", width=260
    )
    mine = segments[segments["policy"] == policy]
    drawn = charts.gantt(mine, theme=theme())
    st.caption(
        "The first seed at the highest load"
        + (f"; the first {charts.MOST_BARS:,} of {len(mine):,} stretches." if len(mine) > charts.MOST_BARS else ".")
    )
    twin = mine.assign(start_h=mine["start_s"] / 3600.0, end_h=mine["end_s"] / 3600.0)
    twin = twin[["gpu", "place", "number", "workload", "start_h", "end_h", "beside"]]
    frame.chart(drawn, name="replay-gantt", alt=alt_text(drawn), table=twin)
