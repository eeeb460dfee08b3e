"""May these share?"""

import pandas as pd
import streamlit as st

from analysis.interference.metrics import antt, fairness, jain, stp, together_per_100
from analysis.numbers import significant, slowdown
from analysis.predict import models
from analysis.predict.jobs import JobPrediction
from analysis.ui import empty, filters, frame, navigation, question
from analysis.ui.markdown import plain, sentence
from analysis.ui.resources import cached, database

QUESTION = "May these share?"
MEMORY = {
    "fits": "Memory: they fit.",
    "tight": "Memory: tight, above 90 % of what the GPU has.",
    "does_not_fit": "Memory: they do not fit.",
    "unknown": "Memory: unknown.",
}
LOOK = {
    "share": (":material/check_circle:", "green", "Share"),
    "don't": (":material/block:", "red", "Don't share"),
    "measure first": (":material/straighten:", "orange", "Measure first"),
}
EVIDENCE = {
    "none": "no profile of every job",
    "telemetry": "telemetry",
    "counters": "counters",
    "stalls": "stall reasons",
    "measured": "a measurement of this very set",
}


def verdict(found: list[JobPrediction]) -> str:
    """Say memory first, then the verdict and what it rests on."""
    first = found[0]
    _, colour, words = LOOK[first.verdict]
    return (
        f"**:{colour}[{words}].** {sentence(first.why)} {MEMORY[first.memory]} "
        f"This rests on {EVIDENCE.get(first.evidence, plain(first.evidence))}."
    )


def members(found: list[JobPrediction]) -> None:
    """Show what each job pays, and what they do together."""
    cards = st.columns(len(found) + 1)
    for card, one in zip(cards, found, strict=False):
        interval = f"{significant(one.low)} to {significant(one.high)}" if one.low and one.high else "no interval"
        card.metric(plain(one.workload, 40), f"{significant(one.slowdown)} x", border=True, height="stretch")
        card.caption(f"{interval}{f' · measured {slowdown(one.measured)}' if one.measured else ''}")
    total = stp([one.slowdown for one in found])
    cards[-1].metric(
        "Together, for 100 min in turn", f"{float(together_per_100(total)):.0f} min", border=True, height="stretch"
    )
    every = [one.slowdown for one in found]
    cards[-1].caption(
        f"STP {significant(total)} · ANTT {significant(antt(every))} x · fairness {significant(fairness(every))} · "
        f"Jain's index {significant(jain(every))} · worst S {significant(max(every))} x"
    )


def details(found: list[JobPrediction], asked: question.Question) -> None:
    """Show the same as a table, what makes the answer doubtful and what is missing."""
    table = pd.DataFrame([one.to_json() for one in found])
    columns = [
        "workload",
        "slowdown",
        "low",
        "high",
        "coverage",
        "measured",
        "extrapolating",
        "evidence",
        "memory",
        "verdict",
    ]
    frame.data(
        table[columns],
        name="what-if",
        columns={
            "workload": st.column_config.TextColumn("Job", width="medium"),
            "slowdown": st.column_config.NumberColumn("Slowdown, x", format="%.3g"),
            "low": st.column_config.NumberColumn("From, x", format="%.3g"),
            "high": st.column_config.NumberColumn("To, x", format="%.3g"),
            "coverage": st.column_config.NumberColumn("Level of the interval, %", format="%.0f"),
            "measured": st.column_config.NumberColumn("Measured, x", format="%.3g"),
            "extrapolating": st.column_config.CheckboxColumn("Extrapolating"),
            "evidence": "Evidence",
            "memory": "Memory",
            "verdict": "Verdict",
        },
    )
    reasons = list(dict.fromkeys(reason for one in found for reason in one.reasons))
    missing = list(dict.fromkeys(text for one in found for text in one.missing))
    if missing:
        st.markdown("**What would make this answer better**")
        for text in missing:
            st.markdown(f"- {sentence(text, 600)}")
    navigation.link("explain", "Why this number?", **asked.address())
    calibrated = next((one for one in found if one.calibrated_by), None)
    frame.basis(
        asked.model.title,
        frame.count(asked.model.runs, "run") if asked.model.runs else "no co-run: stall profiles alone",
        f"{calibrated.groups} groups calibrate the interval" if calibrated else "no interval",
        simulated=asked.model.simulated,
        protocol=calibrated.calibrated_by if calibrated else None,
    )
    frame.caveats([*asked.model.notes, *(f"Extrapolating: {reason}" for reason in reasons)])


def page() -> None:
    name = filters.dataset()
    known = question.trained(name) if name else []
    if not known:
        frame.header(QUESTION, filters.chosen("dataset") if name else None)
        if name is None:
            empty.state("There is nothing to ask yet.", empty.CORUN)
            return
        frame.answer("A model has to be trained first: it takes one click.")
        navigation.link("train", "Train a model", dataset=name)
        return
    heading = st.container()
    asked = question.ask(known)
    found = cached(models.predict, database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism)
    with heading:
        frame.header(QUESTION, filters.chosen("dataset"), simulated=asked.model.simulated)
        frame.answer(verdict(found))
    members(found)
    details(found, asked)


page()
