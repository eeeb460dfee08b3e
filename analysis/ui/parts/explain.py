"""The parts of the Explain page: one member of a set, the whole model, one family, and a disagreement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.explanations import beeswarm, dependence, importance_bars, waterfall
from analysis.charts.theme import alt_text
from analysis.numbers import slowdown
from analysis.predict.frame.naming import OWNERS
from analysis.store.filters import Filter
from analysis.store.queries import sources
from analysis.ui.shell import frame, navigation, resources
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, theme

if TYPE_CHECKING:
    from analysis.predict.explain.explain import Explanation
    from analysis.predict.explain.importance import GlobalImportance
    from analysis.ui.parts.question import Question


COLUMNS: dict[str, Any] = configured(
    "feature", "with", "whose", "what/evidence", "group", "value", "unit", "workload/job", "other/value", "shap",
    "factor", "mean_abs", "mean", "strength",
)  # fmt: skip
_COMPARED: dict[str, Any] = configured("workload/job", "predicted", "measured", "error", "inside", "runs")
#: Where the sum of contributions starts.
STARTS = {"typical": "what is usual here", "sets": "what is usual for as many jobs", "alone": "the job alone"}


def member(one: Explanation) -> None:
    """Draw how one job's prediction comes about."""
    beside = plain(", ".join(one.co_workloads), 160)
    frame.subheading(f"{plain(one.workload)} beside {beside}: {slowdown(one.slowdown)}")
    table = one.table()
    figure = waterfall(one.base, one.steps(), one.prediction, start=STARTS[one.start], theme=theme())
    frame.chart(figure, name="waterfall", alt=alt_text(figure), table=_with_owners(table), columns=COLUMNS)
    left, right = st.columns(2)
    for column, words, sums in (
        (left, "By whose it is", one.by_whose), (right, "By stall group or resource", one.by_group)
    ):  # fmt: skip
        with column:
            st.markdown(f"**{words}**")
            rows = [
                {"part": OWNERS.get(name, name), "shap": round(value, 4) + 0.0, "factor": float(np.exp(value))}
                for name, value in sums.items()
            ]
            st.dataframe(
                rows,
                hide_index=True,
                column_config={**COLUMNS, "part": words},
                height="content",
                placeholder="–",
                alt=words,
            )


def _with_owners(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of features with their owners as people call them."""
    return table.assign(whose=table["whose"].replace(dict(OWNERS)))


def against_measured(dataset: str, gpu: str, mechanism: str, predicted: Any, found: list[Explanation]) -> None:
    """Where the set was measured, compare, and say what led astray and whether the measurement is doubted."""
    from analysis.predict.explain.disagreement import disagreements

    compared = disagreements(database(), dataset, gpu, mechanism, predicted, found)
    if not compared:
        return
    simulated = any(one.simulated for one in compared)
    frame.subheading("Against the simulated run" if simulated else "Against the measurement")
    for one in compared:
        icon = ":orange[:material/warning:] " if one.doubts or one.inside is False else ""
        st.markdown(f"{icon}{sentence(one.sentence, 600)}")
    table = pd.DataFrame([one.to_json() for one in compared])[list(_COMPARED)]
    names = _COMPARED | configured("measured/simulated")
    frame.data(table, name="disagreement", columns=names if simulated else _COMPARED, height="content")
    st.caption("These runs may be among those that the model learned from: an agreement here is no test of it.")


def onward(asked: Question, one: Explanation, *, measured: bool) -> None:
    """Link to the evidence behind an explanation, to the verdict, and to a report."""
    dataset = asked.model.dataset
    known = cached(sources.workloads, database(), Filter(datasets=(dataset,), workloads=(one.workload,)))
    with st.container(horizontal=True):
        navigation.link("what-if", "May they share?", **asked.address())
        navigation.link("report", "Put it into a report", kind="prediction", **asked.address())
        if len(known) and int(known["profiles"].max()) > 0:
            navigation.link("stalls", "What it waits for alone", dataset=dataset, job=one.workload)
        if measured:
            partner = one.co_workloads[0]
            navigation.link("interference", "The runs behind it", dataset=dataset, slowed=one.workload, beside=partner)


def whole(model_id: str, found: GlobalImportance) -> None:
    """Show what a model looks at: bars, a swarm, one feature's dependence, and interactions when asked for."""
    shown = _with_owners(found.table)
    figure = importance_bars(shown, value="mean_abs", theme=theme())
    frame.chart(figure, name="importance", alt=alt_text(figure), table=shown, columns=COLUMNS)
    _grouped(found)
    long = found.shap.melt(var_name="feature", value_name="shap")
    long["value"] = found.values.melt()["value"].to_numpy()
    long["unit"] = long["feature"].map(found.units)
    figure = beeswarm(long, theme=theme())
    frame.subheading("Every prediction a point")
    frame.chart(figure, name="beeswarm", alt=alt_text(figure), table=long, columns=COLUMNS)
    _dependence(found)
    _interactions(model_id, found)


def _grouped(found: GlobalImportance) -> None:
    """Show the sizes summed two ways."""
    left, right = st.columns(2)
    for column, words, by in ((left, "By whose it is", "whose"), (right, "By stall group or resource", "group")):
        labels = found.table.set_index("feature")[by]
        sums = {
            str(name): float(found.shap[list(part.index)].sum(axis=1).abs().mean())
            for name, part in labels.groupby(labels)
        }
        rows = [
            {"part": OWNERS.get(name, name), "mean_abs": sums[name]}
            for name in sorted(sums, key=lambda key: -sums[key])
        ]
        with column:
            st.markdown(f"**{words}**")
            st.dataframe(
                rows,
                hide_index=True,
                column_config={**COLUMNS, "part": words},
                height="content",
                placeholder="–",
                alt=words,
            )


def _dependence(found: GlobalImportance) -> None:
    from analysis.predict.explain.interactions import screened

    names = [str(name) for name in found.table["feature"] if found.values[str(name)].nunique() > 2]
    if not names:
        return
    frame.subheading("How one feature acts")
    feature = st.selectbox("Feature", names, key="feature", bind="query-params", persist_state="session") or names[0]
    feature = feature if feature in names else names[0]
    beside = screened(found, feature)
    other = str(beside["with"].iloc[0]) if len(beside) and float(beside["strength"].iloc[0]) > 0 else None
    table = pd.DataFrame(
        {"workload": found.rows["workload"].to_numpy(), "value": found.values[feature], "shap": found.shap[feature]}
    )
    if other is not None:
        table["other"] = found.values[other]
    table["unit"] = found.units.get(feature, "")
    figure = dependence(table, feature=feature, other=other, unit=found.units.get(feature, ""), theme=theme())
    if other is not None:
        st.caption(f"Coloured by what acts most together with it: {plain(other)}.")
    frame.chart(figure, name="dependence", alt=alt_text(figure), table=table, columns=COLUMNS)


def _interactions(model_id: str, found: GlobalImportance) -> None:
    """Compute interactions when they are asked for: for trees they cost the columns squared."""
    from analysis.predict.explain.interactions import interactions

    frame.subheading("What acts together")
    if not st.toggle("Work out the interactions", key="interactions", persist_state="session"):
        return
    with st.spinner("Working out the interactions"):
        pairs = interactions(database(), model_id, found)
    if pairs.table.empty:
        st.caption("There is none: this predictor adds up its features.")
        return
    first = pairs.table.iloc[0]
    st.markdown(f"Most together: {plain(first['feature'])} and {plain(first['with'])}.")
    frame.data(pairs.table, name="interactions", columns=COLUMNS)
    st.caption(sentence(f"{pairs.method[:1].upper()}{pairs.method[1:]}."))


def family(found: GlobalImportance, heading: st.delta_generator.DeltaGenerator) -> None:
    """Show why a family suffers more or less than all jobs."""
    from analysis.predict.explain.importance import cohort, families

    names = families(found)
    if not names:
        with heading:
            frame.answer("No family has enough rows to speak of.")
        return
    name = st.selectbox("Family", names, key="of-family", bind="query-params", persist_state="session") or names[0]
    one = cohort(found, name if name in names else names[0])
    with heading:
        frame.answer(sentence(one.sentence, 600))
    steps: list[Any] = one.table.drop(columns=["whose"]).to_dict("records")
    figure = waterfall(one.base, steps, one.mean, start="all jobs", theme=theme())
    frame.chart(figure, name="family", alt=alt_text(figure), table=_with_owners(one.table), columns=COLUMNS)
    st.caption(
        f"{frame.count(one.rows, 'member')} of {frame.count(one.workloads, 'workload')}; measured, they pay "
        f"{slowdown(float(np.exp(one.measured)))} (geometric mean). The parts add up: "
        f"{one.base:.4f} + {one.table['shap'].sum():.4f} = {one.mean:.4f} in ln S."
    )


def importance_of(model_id: str) -> GlobalImportance | None:
    """Explain a model's training rows beside the page; None as long as it takes."""
    from analysis.predict.explain.importance import global_importance

    return resources.result("Explaining the predictions of the training data", global_importance, database(), model_id)
