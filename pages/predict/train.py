"""How well can it be predicted here?"""

import streamlit as st

from analysis.interference.decision import RUNS_FOR_SCORE
from analysis.predict.predictors.registry import DEFAULT, PREDICTORS
from analysis.store.queries import models, sources
from analysis.ui.parts import compare, train
from analysis.ui.shell import access, empty, filters, frame, job, navigation
from analysis.ui.shell.markdown import plain
from analysis.ui.shell.resources import cached, database, jobs

QUESTION = "How well can it be predicted here?"


def running(kind: str, name: str) -> str | None:
    """Return this session's job of a kind on a data set, or one that another tab started and that still runs."""
    known = st.session_state.get(f"job-{kind}")
    latest = jobs().latest(kind)
    if latest is not None and not latest.finished and latest.request.get("dataset") == name:
        st.session_state[f"job-{kind}"] = latest.job_id
        return latest.job_id
    return known if known and jobs().status(known).request.get("dataset") == name else None


def last_comparison(name: str) -> dict | None:
    """Return the newest comparison of a data set."""
    found = cached(models.evaluations, database(), name)
    return None if found.empty else dict(found.iloc[0])


def scores(name: str, choices: dict[str, list[str]]) -> None:
    """Ask for a comparison, watch it, show it."""
    request = train.form(name, choices)
    if request is not None:
        st.session_state[f"job-{train.EVALUATE}"] = train.submit_comparison(request)
        st.rerun()
    current = running(train.EVALUATE, name)
    if current is not None:
        status = job.watch(current)
        job.outcome(status)
        if not status.finished:
            return
    found = last_comparison(name)
    if found is None:
        return
    result = found["result"]
    st.subheader("The last comparison", anchor=False)
    st.caption(f"{plain(result['protocol'])}: {plain(result['sentence'], 200)} · {found['created_at']:%Y-%m-%d %H:%M}")
    compare.show_table(result, name="comparison")
    compare.basis(result)
    navigation.link("compare", "Compare in detail", dataset=name)


def model(name: str, choices: dict[str, list[str]]) -> None:
    """Train a model to ask about sets that never ran."""
    st.subheader("A model to ask with", anchor=False)
    st.caption("Trained on everything measured in this data set; What-if and Explain use it.")
    with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
        names = list(PREDICTORS)
        chosen = st.selectbox(
            "Predictor",
            names,
            index=names.index(DEFAULT),
            format_func=lambda key: PREDICTORS[key].title,
            key="train-predictor",
            width=380,
        )
        gpu = st.selectbox("GPU", ["All", *choices["gpu"]], key="model-gpu", width=220)
        mechanism = train.mechanism_of(name, key="model-mechanism", width=300)
        if access.button("Train a model", type="primary", icon=":material/model_training:", key="train-model"):
            wanted = None if gpu == "All" else gpu
            st.session_state[f"job-{train.TRAIN}"] = train.submit_training(name, str(chosen), wanted, mechanism)
            st.rerun()
    current = running(train.TRAIN, name)
    if current is None:
        return
    status = job.watch(current)
    job.outcome(status)
    if status.result is not None:
        for note in status.result.get("notes", []):
            st.caption(plain(note, 400))
        st.success(f"Model {plain(status.result['model_id'])} is ready.", icon=":material/check_circle:")
        with st.container(horizontal=True):
            navigation.link("what-if", "Ask about a set of jobs", dataset=name)
            navigation.link("explain", "See why it says what it says", dataset=name)


def page() -> None:
    name = filters.dataset()
    if name is None:
        frame.header(QUESTION)
        empty.state("There are no co-runs to learn from yet.", empty.CORUN)
        return
    counts = cached(sources.counts, database(), name)
    based = cached(sources.basis, database(), name)
    frame.header(QUESTION, filters.chosen("dataset"), simulated=based["simulated"] > 0)
    if not counts["runs"]:
        frame.answer(f"{plain(name)} holds no co-run to learn from.")
        empty.state("Co-runs are needed.", empty.CORUN)
        return
    if counts["runs"] < RUNS_FOR_SCORE:
        missing = RUNS_FOR_SCORE - counts["runs"]
        frame.answer(
            f"With {frame.count(counts['runs'], 'co-run')} a model can be trained and asked, but no score says how far "
            f"it is off: that takes {RUNS_FOR_SCORE} runs, **{missing} more**. What ran answers without a model."
        )
        model(name, filters.options(name))
        with st.container(horizontal=True):
            navigation.link("partners", "Who may share", dataset=name)
            navigation.link("what-if", "Ask about a set of jobs", dataset=name)
            navigation.link("measure-next", "What to measure next", dataset=name)
        return
    found = last_comparison(name)
    frame.answer(
        compare.comparison_sentence(found["result"])
        if found
        else f"{counts['runs']:,} co-runs can be learnt from. Choose what the predictors shall not have seen, and "
        "score them."
    )
    choices = filters.options(name)
    scores(name, choices)
    model(name, choices)


page()
