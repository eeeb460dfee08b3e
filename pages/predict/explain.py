"""Why this number?"""

import numpy as np
import streamlit as st

from analysis.errors import StallScopeError
from analysis.predict.models import models
from analysis.predict.models.manifest import Manifest
from analysis.reference import gpus
from analysis.ui.parts import explain as explaining
from analysis.ui.parts import question
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database

QUESTION = "Why this number?"
SET, MODEL, FAMILY = "This set of jobs", "What the model looks at", "One family"


def one_set(known: list[Manifest], heading: st.delta_generator.DeltaGenerator) -> None:
    """Explain the prediction of every job of a set."""
    from analysis.predict.explain.explain import explain  # SHAP takes seconds to import

    asked = question.ask(known)
    key = (database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism)
    try:
        found = cached(explain, *key, caps=asked.capped)
        predicted = cached(models.predict, *key, caps=asked.capped)
    except StallScopeError as error:
        st.error(sentence(error.sentence), icon=":material/error:")
        return
    places = [f"{number}. {one.workload}" for number, one in enumerate(found, start=1)]
    picked = (
        st.segmented_control("Job", places, default=places[0], required=True, key="member")
        if len(found) > 1
        else places[0]
    )
    one = found[places.index(picked)] if picked in places else found[0]
    with heading:
        frame.answer(sentence(one.sentence, 600))
    explaining.member(one)
    here = (gpus.resolve(asked.gpu, asked.model.gpus) or [asked.gpu])[0]
    explaining.against_measured(asked.model.dataset, here, asked.mechanism, predicted, found)
    explaining.onward(asked, one, measured=any(said.measured is not None for said in predicted))
    frame.basis(
        asked.model.title,
        frame.count(asked.model.runs, "run"),
        one.method,
        f"base {one.base:.4f} + contributions = prediction {one.prediction:.4f}, off by {one.additivity_error:.1e}",
        simulated=asked.model.simulated,
    )


def many(known: list[Manifest], heading: st.delta_generator.DeltaGenerator, shown: str) -> None:
    """Show what a model looks at over its training data, or why one family suffers."""
    card = question.model_of(known)
    if not card.runs:
        with heading:
            frame.answer("This model has learned from no co-run: there is nothing to look at over many.")
        return
    found = explaining.importance_of(card.model_id)
    if found is None:
        return
    if shown == FAMILY:
        explaining.family(found, heading)
    else:
        first = found.table.iloc[0] if len(found.table) else None
        with heading:
            frame.answer(
                f"Most of all it looks at **{plain(first['feature'])}**, which moves a slowdown by a factor of "
                f"{np.exp(first['mean_abs']):.2f} on average."
                if first is not None
                else "It looks at nothing: it predicts the same for every job."
            )
        if first is not None:
            explaining.whole(card.model_id, found)
    frame.basis(
        card.title,
        frame.count(len(found.rows), "member"),
        found.method,
        f"contributions add up to the predictions within {found.additivity_error:.1e}",
        simulated=card.simulated,
    )


def page() -> None:
    name = filters.dataset()
    known = question.trained(name) if name else []
    if not known:
        frame.header(QUESTION, filters.chosen("dataset") if name else None)
        if name is None:
            empty.state("There is nothing to explain yet.", empty.CORUN)
            return
        question.say(name)
        return
    frame.header(QUESTION, filters.chosen("dataset"), simulated=any(card.simulated for card in known))
    heading = st.container()
    shown = st.segmented_control(
        "Explain", [SET, MODEL, FAMILY], default=SET, required=True, key="explain", label_visibility="collapsed",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    if shown in (MODEL, FAMILY):
        many(known, heading, str(shown))
    else:
        one_set(known, heading)


page()
