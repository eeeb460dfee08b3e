"""A comparison of predictors on a page: which one to believe, beside the plain baselines, with its protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.jobs.runner import Progress
from analysis.numbers import significant
from analysis.predict.evaluate.kace_as_published import in_words, reproduce
from analysis.predict.evaluate.paired import LEAST_FOLDS, by_seed, paired_tests
from analysis.predict.predictors.registry import DEFAULT
from analysis.report.latex import comparison_latex
from analysis.store.queries import models
from analysis.ui.shell import access, filters, frame, job, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, jobs

#: Baselines that stand beside every figure.
MEDIAN, NONE = "train-median", "no-interference"

_COLUMNS: dict[str, Any] = configured(
    "title/predictor", "mape", "interval", "skill", "status", "within_10", "bias", "coverage", "width", "mape_folds",
    "median_ape", "p95_ape", "spearman", "n", title={"pinned": True},
)  # fmt: skip


def scored(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows that have a figure, the best first."""
    have = [row for row in rows if row["mape"] is not None and not math.isnan(row["mape"])]
    return sorted(have, key=lambda row: float(row["mape"]))


def comparison_sentence(result: Mapping[str, Any]) -> str:
    """Say which predictor is best under the protocol, and what the plain baselines reach."""
    best = next((row for row in scored(result["rows"]) if row["predictor"] not in (MEDIAN, NONE)), None)
    plain = {row["predictor"]: row["mape"] for row in result["rows"]}
    protocol = markdown.plain(result["protocol"])
    if best is None:
        baselines = _baselines(plain)
        if baselines:
            return f"Only the baselines were scored under {protocol}: {' and '.join(baselines)}."
        needs = next((row["status"] for row in result["rows"] if row["status"] != "ok"), "no predictor has its inputs")
        return f"No score under {protocol}: {markdown.plain(needs, 200)}."
    text = f"**{markdown.plain(best['title'])}** is off by **{significant(best['mape'])} %** under {protocol}"
    if best["mape_ci"]:
        low, high = best["mape_ci"]
        text += f" ({significant(low)} to {significant(high)} over workloads)"
    baselines = _baselines(plain)
    text += f"; {' and '.join(baselines)}" if baselines else ""
    beaten = plain.get(MEDIAN) is not None and best["mape"] >= plain[MEDIAN]
    return text + (". It has learnt nothing that the median does not know." if beaten else ".")


def _baselines(errors: Mapping[str, Any]) -> list[str]:
    return [
        f"{words} {significant(errors[name])} %"
        for name, words in ((MEDIAN, "the train median"), (NONE, "no interference"))
        if errors.get(name) is not None
    ]


def frame_of(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return the comparison as a table for people: the best first, then those that lack their inputs."""
    table = pd.DataFrame(list(result["rows"]))
    table["interval"] = [
        f"{ci[0]:.1f} to {ci[1]:.1f}" if isinstance(ci, list | tuple) else "" for ci in table["mape_ci"]
    ]
    ordered = table.sort_values("mape", na_position="last", kind="stable").reset_index(drop=True)
    columns = [name for name in _COLUMNS if name in ordered]
    if (ordered["status"] == "ok").all():
        columns.remove("status")
    return ordered[columns]


def show_table(result: Mapping[str, Any], *, name: str) -> None:
    """Show all figures of a comparison."""
    table = frame_of(result)
    frame.data(table, name=name, columns=_COLUMNS, height="content")


def basis(result: Mapping[str, Any]) -> None:
    """Say what the figures rest on, and what was left out."""
    left = "; ".join(f"{number:,} {reason}" for reason, number in result["left_out"].items() if number)
    frame.basis(
        frame.count(result["n"], "member"),
        frame.count(result["runs"], "run"),
        frame.count(result["workloads"], "workload"),
        ", ".join(result["gpus"]),
        ", ".join(result["mechanisms"]),
        f"left out: {left}" if left else "",
        simulated=bool(result["simulated"]),
        protocol=str(result["protocol"]),
    )
    frame.caveats([str(note) for note in result.get("notes", [])])


#: The deciding ablation: the same learner on stalls alone, on counters alone, on both.
ABLATION = {"boosting-stalls": "stalls alone", "boosting": "counters alone", "boosting-both": "counters and stalls"}

#: Below this a difference is not put down to chance.
SURE = 0.05

KACE = "kace-as-published"

_PAIRED: dict[str, Any] = configured(
    "title/compared", "difference/errors", "better_in", "p_value", "p_holm", "words", title={"pinned": True}
)
_SEEDS: dict[str, Any] = configured(
    "title/predictor", "seeds", "mape_low/seeds", "mape_high/seeds", "spread", title={"pinned": True}
)
BY_GPU: dict[str, Any] = configured("title/predictor", "gpu", "coverage", "width", "members", title={"pinned": True})
_KACE: dict[str, Any] = configured(
    "times", "training", "linear", "forest", "linear_sound", "forest_sound", "slowdown_error", "impossible"
)


def chance(result: Mapping[str, Any]) -> None:
    """Show whether one predictor beats the others by more than chance, and how much figures move by seed."""
    titles = {row["predictor"]: row["title"] for row in scored(result["rows"])}
    if len(titles) < 2:
        return
    frame.subheading("Is the difference more than chance?")
    names = list(titles)
    first = names.index(DEFAULT) if DEFAULT in names else 0
    ordered = [names[first], *(name for name in names if name != names[first])]
    against = filters.pick("Compare all with", ordered, key="against", show=lambda name: titles.get(name, name))
    everything = cached(models.predictions, database(), result["evaluation_id"])
    table = paired_tests(everything, str(against or ordered[0]))
    table["title"] = table["predictor"].map(titles)
    table["better_in"] = [f"{won} of {folds}" for won, folds in zip(table["better_in"], table["folds"], strict=True)]
    table["words"] = [_words(row) for row in table.to_dict("records")]
    st.markdown(sentence(_chance_sentence(table, titles[str(against or ordered[0])]), 400))
    frame.data(table[list(_PAIRED)], name="paired", columns=_PAIRED)
    st.caption(
        f"Protocol {plain(result['protocol'])}. Folds of different seeds share rows, so that p is rather too small. "
        f"Below {LEAST_FOLDS} folds nothing can be told from chance."
    )
    seeds = by_seed(everything)
    if len(seeds):
        seeds["title"] = seeds["predictor"].map(titles)
        with st.expander("How much the figures move with the seed", icon=":material/casino:"):
            frame.data(seeds[list(_SEEDS)], name="seeds", columns=_SEEDS)


def ablation(result: Mapping[str, Any]) -> None:
    """Show what stalls add to counters: the same learner on one, on the other and on both."""
    rows = {row["predictor"]: row for row in result["rows"] if row["predictor"] in ABLATION}
    if not rows:
        return
    frame.subheading("What do stall reasons add?")
    known = {name: row["mape"] for name, row in rows.items() if row["mape"] is not None}
    if len(known) == len(ABLATION):
        alone, stalls, both = (known[name] for name in ("boosting", "boosting-stalls", "boosting-both"))
        better = "less" if both < alone else "more"
        st.markdown(
            f"Gradient boosting is off by {significant(alone)} % on counters alone, {significant(stalls)} % on stalls "
            f"alone and **{significant(both)} %** on both: {significant(abs(both - alone))} points {better}."
        )
    else:
        lacking = next((row["status"] for row in rows.values() if row["mape"] is None), "needs: all three scored")
        st.markdown(sentence(f"This can't be said here: {lacking}.", 200))
    shown = [{"what": words, **rows[name]} for name, words in ABLATION.items() if name in rows]
    table = pd.DataFrame(shown)[["what", "mape", "within_10", "status"]]
    columns = configured("what/inputs", "status", "mape", "within_10")  # fmt: skip
    frame.data(table, name="ablation", columns=columns)


def coverage_by_gpu(result: Mapping[str, Any]) -> pd.DataFrame:
    """Return how often intervals held on each GPU; empty where there is one."""
    table = cached(models.predictions, database(), result["evaluation_id"])
    known = table[table["low"].notna() & table["high"].notna()]
    if known["gpu"].nunique() < 2:
        return pd.DataFrame()
    titles = {row["predictor"]: row["title"] for row in result["rows"]}
    inside = (known["measured"] >= known["low"]) & (known["measured"] <= known["high"])
    values = known.assign(inside=100.0 * inside, width=known["high"] - known["low"])
    found = values.groupby(["predictor", "gpu"]).agg(
        coverage=("inside", "mean"), width=("width", "mean"), members=("run_id", "size")
    )
    return found.reset_index().assign(title=lambda one: one["predictor"].map(titles))[list(BY_GPU)]


def papers(result: Mapping[str, Any]) -> None:
    """Offer the comparison as LaTeX."""
    st.download_button(
        "Download LaTeX",
        data=lambda: comparison_latex(result).encode(),
        file_name=f"{result['dataset']}-{result['protocol']}.tex",
        mime="application/x-tex",
        icon=":material/article:",
        key="download-latex",
        on_click="ignore",
        type="tertiary",
        help="A table for a paper, with booktabs.",
    )


def kace(dataset: str) -> None:
    """Offer to repeat KACE's published evaluation where the data set is the one it was made on."""
    if dataset != "kace":
        return
    frame.subheading("KACE as published")
    st.caption(
        "Its artifact predicts a pair's summed raw throughput and scales the test pairs by their own statistics. Here "
        "the same models stand beside themselves without that leak, and what is left as slowdown error."
    )
    running = st.session_state.get("job-kace")
    if running is None:
        if access.button("Repeat the published evaluation", icon=":material/history_edu:"):
            st.session_state["job-kace"] = _submit(dataset)
            st.rerun()
        return
    status = job.watch(running)
    job.outcome(status)
    if status.result is not None:
        st.markdown(sentence(str(status.result["sentence"]), 500))
        frame.data(pd.DataFrame(status.result["rows"])[list(_KACE)], name="kace-as-published", columns=_KACE)


@access.editing
def _submit(dataset: str) -> str:
    opened = database()

    def work(progress: Progress) -> dict[str, Any]:
        found = reproduce(opened, dataset, progress=progress)
        return {"rows": found.to_dict("records"), "sentence": in_words(found)}

    return jobs().submit(KACE, {"dataset": dataset}, work)


def _words(row: Mapping[Any, Any]) -> str:
    if row["p_holm"] is None or pd.isna(row["p_holm"]):
        return "too few folds" if row["folds"] < LEAST_FOLDS else "no difference"
    if row["p_holm"] >= SURE:
        return "may be chance"
    return "worse" if row["difference"] > 0 else "better"


def _chance_sentence(table: pd.DataFrame, title: str) -> str:
    worse, better = int((table["words"] == "worse").sum()), int((table["words"] == "better").sum())
    open_ones = len(table) - worse - better
    text = f"{title} is better than {worse} of {len(table)} by more than chance"
    text += f", worse than {better}" if better else ""
    return f"{text}; with {open_ones} it can't be told." if open_ones else f"{text}."
