"""Which predictor should I believe?"""

import pandas as pd
import streamlit as st

from analysis.charts.comparison_bars import comparison_bars
from analysis.charts.predictions import coverage, predicted_vs_measured, residuals
from analysis.charts.theme import alt_text
from analysis.store.queries import models
from analysis.ui.parts import compare
from analysis.ui.shell import empty, filters, frame, navigation
from analysis.ui.shell.markdown import plain
from analysis.ui.shell.resources import cached, database, theme

QUESTION = "Which predictor should I believe?"
BY = {"workload": "By workload", "gpu": "By GPU", "k": "By number of jobs"}


def pick(found: pd.DataFrame) -> dict:
    """Ask which comparison to look at."""
    labels = {
        row.evaluation_id: " · ".join(
            [row.protocol, *row.result["gpus"], *row.result["mechanisms"], f"{row.created_at:%Y-%m-%d %H:%M}"]
        )
        for row in found.itertuples()
    }
    chosen = filters.pick("Comparison", list(labels), key="which", show=lambda key: labels.get(key, key))
    return dict(found.set_index("evaluation_id").loc[chosen or found["evaluation_id"].iloc[0]])["result"]


def bars(result: dict) -> None:
    """Draw all predictors with their intervals, beside the baselines."""
    rows = pd.DataFrame([*compare.scored(result["rows"]), *(row for row in result["rows"] if row["mape"] is None)])
    rows["low"] = [ci[0] if isinstance(ci, list) else None for ci in rows["mape_ci"]]
    rows["high"] = [ci[1] if isinstance(ci, list) else None for ci in rows["mape_ci"]]
    numeric = rows.astype({"mape": float, "low": float, "high": float})
    plain_rows = {row["predictor"]: row["mape"] for row in result["rows"] if row["mape"] is not None}
    median = plain_rows.get(compare.MEDIAN)
    figure = comparison_bars(
        numeric, label="title", low="low", high="high", note="status", emphasised=set(rows["title"].head(1)),
        references={"train median": float(median)} if median is not None else None, theme=theme(),
    )  # fmt: skip
    st.plotly_chart(figure, theme=None, key="errors", alt=alt_text(figure), config={"displaylogo": False})
    st.caption(f"Under {plain(result['protocol'])}: {plain(result['sentence'], 200)}. Whiskers: 95 % over workloads.")
    compare.show_table(result, name="comparison")
    compare.papers(result)


def members(table: pd.DataFrame) -> pd.DataFrame:
    """Bring the predictions of a member to one, the mean over the times that it was held out."""
    keys = ["run_id", "slot", "workload", "gpu", "mechanism"]
    table = table.assign(beside=[", ".join(names) for names in table["co_workloads"]])
    table["k"] = [1 + len(names) for names in table["co_workloads"]]
    return table.groupby([*keys, "beside", "k"], as_index=False)[["measured", "predicted", "low", "high"]].mean()


def one(result: dict) -> None:
    """Look at one predictor: predicted against measured, and where it is off."""
    names = {row["predictor"]: row["title"] for row in compare.scored(result["rows"])}
    if not names:
        return
    st.subheader("One predictor, member by member", anchor=False)
    picked = st.selectbox(
        "Predictor", list(names), format_func=lambda key: names.get(key, key), key="predictor", width=420,
        bind="query-params", persist_state="session",
    )  # fmt: skip
    table = members(cached(models.predictions, database(), result["evaluation_id"], picked))
    left, right = st.columns(2, gap="medium")
    with left:
        figure = predicted_vs_measured(table, theme=theme())
        frame.chart(figure, name="predicted-against-measured", alt=alt_text(figure), table=table)
    with right:
        usable = [name for name in BY if table[name].nunique() > 1] or ["workload"]
        by = usable[0]
        if len(usable) > 1:
            by = st.segmented_control(
                "Group", usable, default=usable[0], required=True, format_func=BY.__getitem__, key="by-what",
                label_visibility="collapsed",
            )  # fmt: skip
        figure = residuals(table, by=str(by or usable[0]), most=14, theme=theme())
        st.plotly_chart(figure, theme=None, key="residuals", alt=alt_text(figure), config={"displaylogo": False})


def intervals(result: dict) -> None:
    """Show whether the intervals held."""
    rows = pd.DataFrame(result["rows"])
    if rows["coverage"].isna().all():
        return
    st.subheader("Do the intervals hold?", anchor=False)
    known = rows.astype({"coverage": float, "width": float})
    figure = coverage(known, label="title", theme=theme())
    columns = ["title", "coverage", "width", "groups", "group_unit"]
    frame.chart(figure, name="coverage", alt=alt_text(figure), table=known.loc[known["coverage"].notna(), columns])
    by_gpu = compare.coverage_by_gpu(result)
    if len(by_gpu):
        with st.expander("GPU by GPU", icon=":material/memory:"):
            frame.data(by_gpu, name="coverage-by-gpu", columns=compare.BY_GPU)
    few = known.loc[known["groups"].notna() & (known["groups"] < 10), "title"]
    if len(few):
        st.caption(f"Fewer than ten groups calibrate {plain(', '.join(few), 200)}: 90 % can't be guaranteed there.")


def page() -> None:
    name = filters.dataset()
    found = cached(models.evaluations, database(), name) if name else pd.DataFrame()
    if found.empty:
        frame.header(QUESTION, filters.chosen("dataset") if name else None)
        if name is None:
            empty.state("Nothing has been compared yet.", empty.CORUN)
            return
        frame.answer("Nothing has been compared on this data set yet.")
        navigation.link("train", "Score the predictors", dataset=name)
        return
    heading = st.container()
    result = pick(found)
    with heading:
        frame.header(QUESTION, filters.chosen("dataset"), simulated=bool(result["simulated"]))
        frame.answer(compare.comparison_sentence(result))
        if result["leaky"]:
            st.warning("This protocol is leaky: the same pairs stand in training and test. It proves nothing.")
    bars(result)
    compare.chance(result)
    one(result)
    intervals(result)
    compare.ablation(result)
    compare.kace(str(result["dataset"]))
    compare.basis(result)


page()
