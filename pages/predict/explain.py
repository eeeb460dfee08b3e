"""Why this number?"""

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from analysis.charts.explanations import beeswarm, importance_bars, waterfall
from analysis.charts.theme import alt_text
from analysis.numbers import slowdown
from analysis.predict.manifest import Manifest
from analysis.ui import empty, filters, frame, navigation, question
from analysis.ui.markdown import plain, sentence
from analysis.ui.resources import cached, database, theme

if TYPE_CHECKING:
    from analysis.predict.explain import Explanation

QUESTION = "Why this number?"
SET, MODEL = "This set of jobs", "What the model looks at"
COLUMNS = {
    "feature": st.column_config.TextColumn("Feature", width="large"),
    "whose": "Whose",
    "what": "Kind of evidence",
    "group": "Group",
    "value": "Value",
    "shap": st.column_config.NumberColumn("Part of ln S", format="%.4f"),
    "factor": st.column_config.NumberColumn("Factor on S", format="%.3f"),
    "mean_abs": st.column_config.NumberColumn("Mean of its size, ln S", format="%.4f"),
    "mean": st.column_config.NumberColumn("Mean, ln S", format="%.4f"),
}


def one_set(known: list[Manifest], heading: st.delta_generator.DeltaGenerator) -> None:
    """Explain the prediction of every job of a set."""
    from analysis.predict.explain import explain  # SHAP takes seconds to import

    asked = question.ask(known)
    found = cached(explain, database(), asked.model.model_id, asked.gpu, asked.jobs, asked.mechanism)
    places = [f"{number}. {one.workload}" for number, one in enumerate(found, start=1)]
    picked = (
        st.segmented_control("Job", places, default=places[0], required=True, key="member")
        if len(found) > 1
        else places[0]
    )
    one = found[places.index(picked)] if picked in places else found[0]
    with heading:
        frame.answer(sentence(one.sentence))
    member(one)
    frame.basis(
        asked.model.title,
        frame.count(asked.model.runs, "run"),
        one.method,
        f"base {one.base:.4f} + contributions = prediction {one.prediction:.4f}, off by {one.additivity_error:.1e}",
        simulated=asked.model.simulated,
    )


def member(one: "Explanation") -> None:
    """Draw how one job's prediction comes about."""
    beside = plain(", ".join(one.co_workloads), 160)
    st.subheader(f"{plain(one.workload)} beside {beside}: {slowdown(one.slowdown)}", anchor=False)
    table = one.table()
    steps = table.drop(columns=["whose"]).to_dict("records")  # the feature's name says whose it is
    figure = waterfall(one.base, steps, one.prediction, theme=theme())
    frame.chart(figure, name="waterfall", alt=alt_text(figure), table=table, columns=COLUMNS)
    left, right = st.columns(2)
    for column, words, sums in ((left, "By whose it is", one.by_whose), (right, "By group", one.by_group)):
        with column:
            st.markdown(f"**{words}**")
            rows = [{"part": name, "shap": value, "factor": float(np.exp(value))} for name, value in sums.items()]
            st.dataframe(rows, hide_index=True, column_config={**COLUMNS, "part": words}, height="content", alt=words)


def whole_model(known: list[Manifest], heading: st.delta_generator.DeltaGenerator) -> None:
    """Show what a model looks at over its training data."""
    from analysis.predict.explain import global_importance

    card = question.model_of(known)
    with st.spinner("Explaining the predictions of the training data"):
        found = cached(global_importance, database(), card.model_id, 500)
    first = found.table.iloc[0] if len(found.table) else None
    with heading:
        frame.answer(
            f"Most of all it looks at **{plain(first['feature'])}**, which moves a slowdown by a factor of "
            f"{np.exp(first['mean_abs']):.2f} on average."
            if first is not None
            else "It looks at nothing: it predicts the same for every job."
        )
    figure = importance_bars(found.table, value="mean_abs", theme=theme())
    frame.chart(figure, name="importance", alt=alt_text(figure), table=found.table, columns=COLUMNS)
    long = found.shap.melt(var_name="feature", value_name="shap")
    long["value"] = found.values.melt()["value"].to_numpy()
    figure = beeswarm(long, theme=theme())
    st.subheader("Every prediction a point", anchor=False)
    frame.chart(figure, name="beeswarm", alt=alt_text(figure), table=long, columns=COLUMNS)
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
        frame.answer("A model has to be trained first: it takes one click.")
        navigation.link("train", "Train a model", dataset=name)
        return
    frame.header(QUESTION, filters.chosen("dataset"), simulated=any(card.simulated for card in known))
    heading = st.container()
    shown = st.segmented_control(
        "Explain", [SET, MODEL], default=SET, required=True, key="explain", label_visibility="collapsed",
        bind="query-params", persist_state="session",
    )  # fmt: skip
    if shown == MODEL:
        whole_model(known, heading)
    else:
        one_set(known, heading)


page()
