"""What would this cluster gain by sharing?"""

import streamlit as st

from analysis.errors import StallScopeError
from analysis.ui.parts import cluster_replay, interference
from analysis.ui.shell import empty, filters, frame, job, navigation
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, jobs

QUESTION = "What would this cluster gain by sharing?"


def quick_result(opened, name: str, gpu: str, mechanism: str | None) -> dict:
    """Return the small replays that the page opens with, or why there are none."""
    try:
        return cluster_replay.as_result(cluster_replay.quick(opened, name, gpu, mechanism))
    except StallScopeError as error:
        return {"error": error.sentence}


def asked(name: str) -> str | None:
    """Return this session's replay of the data set, or one that another tab started and that still runs."""
    known = st.session_state.get("job-replay")
    latest = jobs().latest(cluster_replay.REPLAY)
    if latest is not None and latest.request.get("dataset") == name and (known is None or not latest.finished):
        return latest.job_id
    return known if known and jobs().status(known).request.get("dataset") == name else None


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen("dataset", "gpu", "mechanism")
    gpus = interference.measured_gpus(name, chosen) if name else []
    if name is None or not gpus:
        frame.header(QUESTION, chosen if name else None)
        empty.state("There are no co-runs of this choice yet.", empty.CORUN)
        return
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    head = st.container()
    request = cluster_replay.form(name, gpus, mechanism)
    if request is not None:
        st.session_state["job-replay"] = cluster_replay.submit(request)
        st.rerun()
    result = None
    current = asked(name)
    if current is not None:
        status = job.watch(current)
        job.outcome(status)
        result = status.result
    if result is None:
        result = cached(quick_result, database(), name, gpus[0], mechanism)
        st.caption(
            "A small replay with a cheap predictor (victim and aggressor effects); ask above for a larger one, by any."
        )
    with head:
        frame.header(QUESTION, chosen, simulated=bool(result.get("simulated")), about="coruns")
        if "error" in result:
            frame.answer(f"Not yet: {sentence(result['error'])}")
        else:
            frame.answer(plain(result["sentence"], 400))
    if "error" not in result:
        cluster_replay.show(result)
    navigation.link("interference", "The slowdowns behind it", dataset=name)


page()
