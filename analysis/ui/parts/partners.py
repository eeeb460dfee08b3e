"""The parts of the page about partners: the picture, the partners of one job, and those who should never meet."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.predictions import by_k_panels, composition_scatter
from analysis.charts.sensitivity_pressure import sensitivity_pressure
from analysis.charts.theme import alt_text
from analysis.errors import ModelRefusedError
from analysis.interference.joining import COMPOSED_SET, MEASURED_SET, PREDICTED_SET, joining
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, SlowdownMatrix
from analysis.interference.partners import never_meet
from analysis.interference.sets import by_k, composition, composition_errors, measured_sets
from analysis.numbers import significant, slowdown
from analysis.predict.models.manifest import Manifest
from analysis.predict.models.many import guess_of
from analysis.reference.origin import evidence, word
from analysis.store.database import Database
from analysis.ui.parts.question import MOST_JOBS as MOST_ASKED
from analysis.ui.parts.question import trained
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database, theme

PAIRS: dict[str, Any] = configured(
    "workload/job", "partner", "verdict", "within_limit", "evidence", "slowdown/job", "partner_slowdown", "worst",
    "stp", "together", "antt", "fairness", "jain", "memory", "needed_mib", "capacity_mib", "safe", "runs", "failed",
    "capped", "why", "sentence", workload={"pinned": True}, partner={"pinned": True},
)  # fmt: skip
_SPREAD: dict[str, Any] = configured(
    "workload/job", "family", "suffers", "suffers_low", "suffers_high", "hurts", "hurts_low", "hurts_high",
    "partners", "failed/partners", "flagged", workload={"pinned": True},
)  # fmt: skip
_MEMORY = {"unknown": "memory unknown", "does_not_fit": "the memory does not fit"}


def answer(pairs: pd.DataFrame, limit: float, gpu: str, job: str | None, *, simulated: bool = False) -> str:
    """Say who is safe at the limit, of measured or simulated pairs; with memory unknown nobody is, and that is said."""
    within, safe = pairs[pairs["within"]], pairs[pairs["safe"]]
    who = f"Of the partners of **{plain(job)}** on {plain(gpu)}" if job else f"Of the pairs on **{plain(gpu)}**"
    measured = int((pairs["state"] == "measured").sum())
    if within.empty:
        text = f"{who}, **none** stays within {limit:g} x ({measured} were {word(simulated)})."
        known = pairs[~pairs["doubtful"] & (pairs["state"] == "measured") & pairs["worst"].notna()]
        if len(known):
            best = known.sort_values("worst", kind="stable").iloc[0]
            name = plain(best["partner"]) if job else f"{plain(best['workload'])} with {plain(best['partner'])}"
            text += f" The nearest is {name}: the worse of the two pays **{slowdown(float(best['worst']))}**."
        return text
    text = f"{who}, **{len(within)}** of {measured} {word(simulated)} stay within {limit:g} x"
    if len(safe) == len(within):
        return f"{text}, and their memory fits: they are **safe**."
    doubtful = int(within["doubtful"].sum())
    unknown = int((within["memory"] == "unknown").sum())
    if len(safe) == 0 and unknown == len(within):
        return (
            f"{text}. **None can be called safe**: how much memory they need is not known. Bring peak memory with the "
            "solo measurements, or watch it in a trial."
        )
    text += f". **{len(safe)} are safe**"
    if unknown:
        text += f"; of {unknown} the memory is unknown"
    if doubtful:
        text += f"; in {doubtful} a job was faster beside the other than alone, which its solo baseline explains"
    if too := int((within["memory"] == "does_not_fit").sum()):
        text += f"; {too} do not fit in memory"
    return text + "."


def picture(table: pd.DataFrame, limit: float) -> None:
    """Draw who suffers and who hurts."""
    ranges = st.toggle("Draw the range over all partners", key="ranges", bind="query-params", persist_state="session")
    figure = sensitivity_pressure(table, limit=limit, ranges=ranges, theme=theme())
    st.caption(
        "Each job once: to the right it slows others, upwards it is slowed. The shaded corner is friendly; the table "
        "below has the range over all partners."
    )
    frame.chart(figure, name="suffers-and-hurts", alt=alt_text(figure), table=table, columns=_SPREAD)


def partners_of(pairs: pd.DataFrame, limit: float, job: str | None) -> None:
    """Show the judged pairs, those within the limit first, as a file too."""
    shown = pairs.assign(together=100 / pairs["stp"])
    columns = ["partner", "verdict", "slowdown", "partner_slowdown", "worst", "together", "stp", "antt", "fairness",
               "jain", "memory", "needed_mib", "capacity_mib", "runs", "failed", "capped", "within_limit",
               "evidence", "why", "sentence"]  # fmt: skip
    if job is None:
        columns.insert(0, "workload")
    within = shown[shown["within"]]
    if len(within):
        safe = int(within["safe"].sum())
        title = "Safe partners" if safe == len(within) else "Partners within the limit"
        frame.subheading(title if job else title.replace("Partners", "Pairs").replace("partners", "pairs"))
        slug = "safe-partners" if safe == len(within) else "partners-within-limit"
        frame.data(_used(within[columns]), name=f"{slug}-{limit:g}", columns=PAIRS)
    rest = shown[~shown["within"]]
    if len(rest):
        with st.expander(frame.count(len(rest), "other partner" if job else "other pair"), icon=":material/block:"):
            frame.data(_used(rest[columns]), name=f"beyond-{limit:g}", columns=PAIRS)


def apart(pairs: pd.DataFrame, job: str | None) -> None:
    """Show who should never meet."""
    found = never_meet(pairs)
    frame.subheading("Whom it should never meet" if job else "Who should never meet")
    if found.empty:
        st.caption("Nobody here: every pair that was tried ran, and got more done together than in turn.")
        return
    failed = int((found["why"] == "did not run together").sum())
    slower = len(found) - failed
    parts = [f"{frame.count(failed, 'pair')} did not run together"] if failed else []
    parts += [f"{frame.count(slower, 'pair')} took longer than one after the other"] if slower else []
    st.markdown(sentence(f"{' and '.join(parts)}."))
    columns = ["workload", "partner", "why", "slowdown", "partner_slowdown", "stp", "runs", "failed"]
    frame.data(_used(found[columns]), name="never-meet", columns=PAIRS)


def _used(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out columns that say nothing: counts of failures and caps that are all zero, values that nobody has."""
    silent = [
        name for name in table
        if table[name].isna().all() or (name in ("failed", "capped") and not np.any(table[name].to_numpy(dtype=float)))
    ]  # fmt: skip
    return table.drop(columns=silent)


#: Most jobs that the stepper puts beside one another.
MOST_JOBS = 5

_JOINING: dict[str, Any] = {**PAIRS, **configured("partner/joining", "basis", "stp_gain", partner={"pinned": True})}
_BY_K: dict[str, Any] = {
    **configured("k", "sets", "did_not_run"),
    **{name: PAIRS[name] for name in ("together", "stp", "antt", "fairness", "jain", "worst")},
}
_COMPOSED: dict[str, Any] = configured("set", "workload/job", "measured/corun", "additive", "product")


def stepper(matrix: SlowdownMatrix, limit: float) -> None:
    """Let the reader put job after job on the GPU, and say of every other whether it may join."""
    frame.subheading("Add one more job")
    models = [
        card for card in trained(matrix.dataset) if matrix.gpu in card.gpus and matrix.mechanism in card.mechanisms
    ]
    names = sorted(matrix.workloads)
    there = st.multiselect(
        "On the GPU already", names, key="there", max_selections=MOST_JOBS - 1, bind="query-params",
        persist_state="session", placeholder="Choose one job or more",
        help="Sets that were co-run first, else a model's prediction, else what their pairs add up to.",
    )  # fmt: skip
    there = [job for job in there if job in names]
    if not there:
        st.caption("Choose the jobs that share the GPU; then every other one is judged as the next.")
        return
    card = models[0] if models else None
    found = cached(_joining, database(), matrix.dataset, matrix.gpu, matrix.mechanism, tuple(there), limit,
                   card.model_id if card else None)  # fmt: skip
    st.markdown(sentence(_answer(found, there, limit)))
    columns = ["partner", "basis", "verdict", "worst", "stp", "stp_gain", "antt", "fairness", "jain", "memory",
               "needed_mib", "capacity_mib", "within_limit", "evidence", "why", "sentence"]  # fmt: skip
    shown = found[[name for name in columns if found[name].notna().any()]]
    shown = shown.assign(basis=[evidence(str(one), simulated=matrix.simulated) for one in shown["basis"]])
    frame.data(shown, name=f"one-more-beside-{len(there)}", columns=_JOINING)
    _add(found, there)
    if 2 <= len(there) <= MOST_ASKED:
        link(
            "what-if", "Ask about this set", dataset=matrix.dataset, on=matrix.gpu, jobs=str(len(there)),
            **{f"job{number}": job for number, job in enumerate(there, start=1)},
            **({"by": matrix.mechanism} if matrix.mechanism else {}),
        )  # fmt: skip
    _said(found, card)


def _joining(
    opened: Database, dataset: str, gpu: str, mechanism: str, jobs: tuple[str, ...], limit: float, model: str | None
) -> pd.DataFrame:
    guess = None
    if model is not None:
        with suppress(ModelRefusedError):  # of another version: the pairs stand in
            guess = guess_of(opened, model, gpu, mechanism, limit)
    return joining(opened, dataset, gpu, mechanism or None, jobs, limit=limit, guess=guess)


def _answer(found: pd.DataFrame, there: list[str], limit: float) -> str:
    good = found[found["within"]]
    beside = f"Beside {' and '.join(there)}"
    if good.empty:
        known = found[~found["state"].isin([FLAGGED, DID_NOT_RUN])].dropna(subset=["worst"])
        known = known.sort_values("worst", kind="stable")
        if known.empty:
            return f"{beside}, nothing is known of a further job."
        best = known.iloc[0]
        return (
            f"{beside}, no further job is within {limit:g} x for all {int(best['k'])}; the nearest is "
            f"{best['partner']}, with {slowdown(float(best['worst']))} for the worst ({best['basis']})."
        )
    best = good.iloc[0]
    gain = f", STP {best['stp']:.2f}" + (f" ({best['stp_gain']:+.2f})" if best["stp_gain"] == best["stp_gain"] else "")
    return (
        f"{beside}, {frame.count(len(good), 'further job')} would keep all {int(best['k'])} within {limit:g} x; first "
        f"{best['partner']}: {slowdown(float(best['worst']))} for the worst{gain} ({best['verdict']})."
    )


def _add(found: pd.DataFrame, there: list[str]) -> None:
    if len(there) >= MOST_JOBS - 1:
        return

    def step(job: str) -> None:
        st.session_state["there"] = [*there, job]

    fresh = [name for name in found["partner"].head(6) if name not in there][:3]
    with st.container(horizontal=True):
        for number, job in enumerate(fresh):
            st.button(f"Add {plain(job, 40)}", icon=":material/add:", key=f"add-{number}", on_click=step, args=(job,))


def _said(found: pd.DataFrame, card: Manifest | None) -> None:
    counts = found["basis"].value_counts()
    parts = [f"{counts[name]} {name}" for name in (MEASURED_SET, PREDICTED_SET, COMPOSED_SET) if name in counts]
    text = f"Known by: {', '.join(parts)}." if parts else ""
    if card is not None and PREDICTED_SET in counts:
        seen = ", ".join(map(str, card.k))
        text += f" The model is {card.title}; it has seen sets of {seen}."
    if COMPOSED_SET in counts:
        text += " Composed values add up what each other job costs in a pair; they are no measurement."
    if text:
        st.caption(sentence(text))


def measured(matrix: SlowdownMatrix) -> None:
    """Show the measured sets of three and more: how the metrics go with k, and how far the pairs tell them."""
    frame.subheading("More than two at once")
    sets = cached(measured_sets, database(), matrix.dataset, matrix.gpu, matrix.mechanism or None)
    table = by_k(sets)
    if not (table["k"] > 2).any():
        st.caption("No set of three or more was co-run here; above, the pairs stand in for them.")
        return
    members = composition(matrix, sets)
    errors = {str(row["how"]): row for row in composition_errors(members).to_dict("records")}
    known = int(errors["additive"]["members"])
    larger = table[table["k"] > 2]
    text = (
        f"{frame.count(int(larger['sets'].sum()), 'set')} of three or more ran, "
        f"{int(larger['did_not_run'].sum())} did not."
    )
    if known:
        text += (
            f" Adding up the pairs is off by {significant(float(errors['additive']['mape']))} % on average "
            f"(signed {float(errors['additive']['bias']):+.1f} %), multiplying them by "
            f"{significant(float(errors['product']['mape']))} % ({float(errors['product']['bias']):+.1f} %), over "
            f"{frame.count(known, 'member')} whose pairs all ran."
        )
    st.markdown(sentence(text))
    figure = by_k_panels(table, theme=theme())
    frame.chart(figure, name="by-number-of-jobs", alt=alt_text(figure), table=table, columns=_BY_K)
    if known:
        figure = composition_scatter(members, theme=theme())
        rows = members.assign(set=members["jobs"].map(" + ".join)).drop(columns=["jobs"])
        order = ["set", "k", "workload", "measured", "additive", "product"]
        frame.chart(figure, name="sets-against-pairs", alt=alt_text(figure), table=rows[order], columns=_COMPOSED)
