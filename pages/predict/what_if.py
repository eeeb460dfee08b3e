"""May these share?"""

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import models, unanswered
from analysis.predict.models.jobs import JobPrediction
from analysis.reference import origin
from analysis.store.queries import sources
from analysis.ui.parts import question, what_if
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

QUESTION = "May these share?"
MEMORY = {
    "fits": "Memory: they fit.",
    "tight": "Memory: tight, above 90 % of what the GPU has.",
    "does_not_fit": "Memory: they do not fit.",
    "unknown": "Memory: unknown.",
}
LOOK = {"share": ("green", "Share"), "don't": ("red", "Don't share"), "measure first": ("orange", "Measure first")}
EVIDENCE = {
    "none": "no profile of every job",
    "telemetry": "telemetry",
    "counters": "counters",
    "stalls": "stall reasons",
    "measured": "a measurement of this very set",
    "did not run": "runs of this very set that failed",
    "composed": "measured pairs, put together",
    "effects": "what each job suffers and does beside others",
}
COLUMNS = configured(
    "workload/job", "slowdown", "low/interval", "high/interval", "coverage/level", "measured", "thread_percentage",
    "extrapolating", "evidence", "memory", "within_limit", "verdict",
)  # fmt: skip


def verdict(found: list[JobPrediction]) -> str:
    """Say memory first, then the verdict and what it rests on."""
    first = found[0]
    colour, words = LOOK[first.verdict]
    basis = EVIDENCE.get(first.rests_on, plain(first.rests_on))
    if first.evidence == "measured" and first.simulated:
        basis = "a simulated run of this very set"
    beyond = first.evidence != "measured" and any(one.extrapolating for one in found)
    warning = " It goes **beyond what the model has seen**; the reasons stand below." if beyond else ""
    chance = f" Within {first.limit:g} x: **{first.within_limit:.0f} %**." if first.within_limit is not None else ""
    why = sentence(first.why)
    limit = "" if f"{first.limit:g} x" in why else f", at the limit of {first.limit:g} x"
    return f"{MEMORY[first.memory]} **:{colour}[{words}].** {why}{chance} This rests on {basis}{limit}.{warning}"


def details(found: list[JobPrediction], asked: question.Question) -> None:
    """Show the same as a table, what makes the answer doubtful and what is missing."""
    table = pd.DataFrame([one.to_json() for one in found])[list(COLUMNS)].dropna(axis="columns", how="all")
    table["evidence"] = [origin.evidence(one.evidence, simulated=one.simulated) for one in found]
    names = COLUMNS | configured("measured/simulated")
    frame.data(
        table.drop(columns=[] if asked.caps else ["thread_percentage"], errors="ignore"), name="what-if",
        columns=names if any(one.simulated for one in found) else COLUMNS,
    )  # fmt: skip
    missing = list(dict.fromkeys(text for one in found for text in one.missing))
    if missing:
        st.markdown("**What would make this answer better**")
        for text in missing:
            what_if.to_do(text)


def rests(found: list[JobPrediction], asked: question.Question) -> None:
    """Say what the answer rests on, and what makes it doubtful."""
    calibrated = next((one for one in found if one.calibrated_by), None)
    frame.basis(
        asked.model.title,
        frame.count(asked.model.runs, "simulated run" if asked.model.simulated else "measured run")
        if asked.model.runs
        else "what ran, and the pairs of larger sets"
        if asked.model.predictor == unanswered.NAME
        else f"no co-run: {'simulated ' if asked.model.simulated else ''}stall profiles alone",
        f"{calibrated.groups} groups calibrate the interval" if calibrated else "no interval",
        protocol=calibrated.calibrated_by if calibrated else None,
    )
    reasons = list(dict.fromkeys(reason for one in found for reason in one.reasons))
    frame.caveats([*asked.model.notes, *(f"Extrapolating: {reason}" for reason in reasons)])


def page() -> None:
    name = filters.dataset()
    known = question.trained(name) if name else []
    if name and not known and cached(sources.counts, database(), name)["runs"]:
        known = [cached(unanswered.card, database(), name)]  # what ran answers without a model
    if not known:
        frame.header(QUESTION, filters.chosen("dataset") if name else None)
        if name is None:
            empty.state("There is nothing to ask yet.", empty.CORUN)
            return
        question.say(name)
        return
    heading = st.container()
    asked = question.ask(known)
    limit = filters.limit()
    try:
        found = cached(
            models.predict, database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism, caps=asked.capped,
            limit=limit,
        )  # fmt: skip
    except StallScopeError as error:
        with heading:
            frame.header(QUESTION, filters.chosen("dataset"), simulated=asked.model.simulated)
            frame.answer("This question has no answer.")
        st.error(sentence(error.sentence), icon=":material/error:")
        what_if.bring_a_profile()
        return
    with heading:
        frame.header(QUESTION, filters.chosen("dataset"), simulated=asked.model.simulated)
        frame.answer(verdict(found))
    what_if.other_settings(asked)
    what_if.bring_a_profile()
    what_if.members(found)
    what_if.why(asked)
    what_if.onward(asked)
    what_if.side_by_side(asked, found, known)
    details(found, asked)
    what_if.nearest(asked)
    what_if.what_would_help(asked, found)
    rests(found, asked)


page()
