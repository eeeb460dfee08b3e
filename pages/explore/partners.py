"""Who may sit beside this job?"""

import streamlit as st

from analysis.interference.matrix import slowdown_matrix
from analysis.interference.partners import sensitivity_and_pressure
from analysis.predict.models.judged import judged_pairs
from analysis.store.queries import sources
from analysis.ui.parts import interference, partners
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.navigation import CORUNS, link
from analysis.ui.shell.resources import cached, database

QUESTION = "Who may sit beside this job?"


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen(*CORUNS)
    gpus = interference.measured_gpus(name, chosen) if name else []
    if name is None or not gpus:
        frame.header(QUESTION, chosen if name else None)
        empty.state("There are no co-runs of this choice yet.", empty.CORUN)
        return
    heading = st.container()
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        gpu = filters.pick("GPU", gpus, key="on-gpu") or gpus[0]
        limit = filters.limit()
        matrix = cached(slowdown_matrix, database(), name, gpu, mechanism)
        jobs = sorted(matrix.workloads)
        job = st.selectbox(
            "Job", jobs, index=None, key="job", placeholder="All pairs", bind="query-params", persist_state="session"
        )
    job = job if job in jobs else None
    pairs = cached(judged_pairs, database(), name, gpu, matrix.mechanism, limit, job)
    kept = set(cached(sources.workloads, database(), chosen)["workload"])
    pairs = pairs[pairs["partner"].isin(kept) & (pairs["workload"].isin(kept) | (pairs["workload"] == job))]
    with heading:
        frame.header(QUESTION, chosen, simulated=matrix.simulated, about="coruns")
        frame.answer(partners.answer(pairs, limit, gpu, job, simulated=matrix.simulated))
    partners.partners_of(pairs, limit, job)
    frame.subheading("Who suffers, who hurts")
    table = sensitivity_and_pressure(matrix)
    partners.picture(table[table["workload"].isin(kept)].reset_index(drop=True), limit)
    partners.apart(pairs, job)
    partners.stepper(matrix, limit)
    partners.measured(matrix)
    frame.basis(
        frame.count(matrix.n, "run of two", "runs of two"),
        frame.count(len(matrix.workloads), "workload"),
        frame.count(matrix.sources, "source"),
        simulated=matrix.simulated,
    )
    frame.caveats(list(matrix.notes))
    with st.container(horizontal=True):
        link("interference", "The whole matrix", dataset=name)
        link("what-if", "Ask about a set of jobs", dataset=name, on=gpu)


page()
