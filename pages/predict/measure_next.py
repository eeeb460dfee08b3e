"""What should I measure next?"""

import streamlit as st

from analysis.charts.predictions import expected_error
from analysis.charts.theme import alt_text
from analysis.predict.advise.measure_next import in_words
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.parts import measure_next
from analysis.ui.shell import access, empty, filters, frame, job
from analysis.ui.shell.markdown import sentence
from analysis.ui.shell.resources import cached, database, theme

QUESTION = "What should I measure next?"


def choices(name: str) -> measure_next.Request | None:
    """Ask for the workload, the place and the number of runs; each stands in the address."""
    found = cached(coruns.gpus_and_mechanisms, database(), name)
    ranked = found.groupby("gpu")["runs"].sum().sort_values(ascending=False, kind="stable")
    workloads = sorted(str(one) for one in cached(sources.workloads, database(), Filter(datasets=(name,)))["workload"])
    with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
        workload = st.selectbox(
            "Workload", workloads, key="next-workload", width=380, bind="query-params", persist_state="session",
            help="The one that is new, or known too little.",
        )  # fmt: skip
        gpu = st.selectbox(
            "GPU", [str(one) for one in ranked.index], key="next-gpu", width=200, bind="query-params",
            persist_state="session",
        )  # fmt: skip
        here = found[found["gpu"] == gpu].sort_values("runs", ascending=False, kind="stable")
        mechanism = str(here["mechanism"].iloc[0])
        if len(here) > 1:
            mechanism = str(
                st.selectbox("Mechanism", [str(one) for one in here["mechanism"]], key="next-mechanism", width=240)
            )
        runs = st.number_input("Runs to choose", 1, 20, 5, key="next-runs", width=150)
    if not workload:
        return None
    return measure_next.Request(name, str(workload), int(runs), str(gpu), mechanism, filters.limit())


def page() -> None:
    name = filters.dataset()
    found = cached(coruns.gpus_and_mechanisms, database(), name) if name else None
    if name is None or found is None or found.empty:
        frame.header(QUESTION)
        empty.state("There are no co-runs to learn from yet.", empty.CORUN)
        return
    heading = st.container()
    request = choices(name)
    if request is None:
        return
    plan = measure_next.plan(request)
    with heading:
        frame.header(QUESTION, filters.chosen("dataset"), simulated=not isinstance(plan, str) and plan.simulated)
        frame.answer(sentence(plan if isinstance(plan, str) else in_words(plan), 400))
    if isinstance(plan, str):
        return
    chosen = plan.suggestions
    figure = expected_error(
        plan.expected_error,
        [one.expected_error for one in chosen],
        [one.random_error for one in chosen],
        [one.co_workload for one in chosen],
        theme=theme(),
    )
    frame.chart(figure, name="expected-error", alt=alt_text(figure), table=plan.table(), columns=measure_next.COLUMNS)
    frame.subheading("In this order")
    frame.data(
        plan.table()[list(measure_next.SHOWN)],
        name="measure-next",
        columns=measure_next.COLUMNS,
    )
    st.caption(f"Verdicts are what every page says today at the limit of {request.limit:g} x.")
    st.caption("Expected by the direct view of the default predictor; noise of the measurement itself is not in it.")
    st.code(chosen[0].command, language="sh", wrap_lines=True)
    checked(request)
    frame.basis(
        frame.count(plan.runs, "measured run"),
        f"{plan.workload} measured beside {plan.measured} of {plan.partners} partners",
        plan.gpu,
        plan.mechanism,
        simulated=plan.simulated,
    )
    frame.caveats(plan.notes)


def checked(request: measure_next.Request) -> None:
    """Offer to try the choice on every measured workload, and say what came of it."""
    frame.subheading("Is this choice better than chance here?")
    running = st.session_state.get("job-next-check")
    status = job.watch(running[1]) if running and running[0] == request.place() else None
    if status is None:
        st.caption("Every measured workload in turn is treated as new, and the choice made among its measured runs.")
        if access.button("Try it on the measured workloads", icon=":material/fact_check:"):
            st.session_state["job-next-check"] = (request.place(), measure_next.submit_check(request))
            st.rerun()
        return
    job.outcome(status)
    if status.result is not None:
        st.markdown(sentence(str(status.result["sentence"]), 600))
        frame.data(
            measure_next.check_table(status.result), name="measure-next-check", columns=measure_next.CHECK_COLUMNS
        )


page()
