"""More than two jobs at once: one more job on the GPU, what the pairs say of it, and how it goes with their number."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from analysis.charts.theme import alt_text
from analysis.charts.transfer import by_k_panels, composition_scatter
from analysis.errors import ModelRefusedError
from analysis.interference.joining import COMPOSED_SET, MEASURED_SET, PREDICTED_SET, joining
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, SlowdownMatrix
from analysis.interference.sets import by_k, composition, composition_errors, measured_sets
from analysis.numbers import significant, slowdown
from analysis.predict.advise.square import predict_sets
from analysis.predict.models.manifest import Manifest
from analysis.reference.origin import evidence
from analysis.store.database import Database
from analysis.ui.parts.partners import PAIRS
from analysis.ui.parts.question import MOST_JOBS as MOST_ASKED
from analysis.ui.parts.question import trained
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.navigation import link
from analysis.ui.shell.resources import cached, database, theme

#: Most jobs that the stepper puts beside one another.
MOST_JOBS = 5

_JOINING: dict[str, Any] = {
    **PAIRS,
    "partner": st.column_config.TextColumn("One more", width="medium", pinned=True),
    "basis": st.column_config.TextColumn("Known by", help="Co-run, predicted by a model, or composed of pairs."),
    "stp_gain": st.column_config.NumberColumn("STP gained", format="%+.2f"),
}
_BY_K: dict[str, Any] = {
    "k": st.column_config.NumberColumn("Jobs at once", format="%d"),
    "sets": st.column_config.NumberColumn("Sets that ran", format="%d"),
    "did_not_run": st.column_config.NumberColumn("Did not run", format="%d"),
    **{name: PAIRS[name] for name in ("together", "stp", "antt", "fairness", "jain", "worst")},
}
_COMPOSED: dict[str, Any] = {
    "set": st.column_config.TextColumn("Set", width="large"),
    "workload": st.column_config.TextColumn("Job", width="medium"),
    "measured": st.column_config.NumberColumn("Co-run, x", format="%.2f"),
    "additive": st.column_config.NumberColumn("Pairs added up, x", format="%.2f"),
    "product": st.column_config.NumberColumn("Pairs multiplied, x", format="%.2f"),
}


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
               "needed_mib", "capacity_mib", "sentence"]  # fmt: skip
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

        def guess(sets: list[tuple[str, ...]]) -> list[tuple[float, ...]]:
            try:
                return predict_sets(opened, model, gpu, mechanism, sets)
            except ModelRefusedError:  # of another version: the pairs stand in
                return [(float("nan"),) * len(one) for one in sets]

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
