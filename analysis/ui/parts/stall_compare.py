"""Comparing profiles on a page: one baseline, up to five others, what differs first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.stall_bars import differences, stall_bars
from analysis.charts.theme import alt_text, reason_title
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.reference.stall_families import BY_NAME
from analysis.stalls import beside
from analysis.stalls.compare import (
    LEAST_POINTS,
    MOST_OTHERS,
    OTHER_FAMILY,
    Comparison,
    compare_all,
    differing,
    sentence,
    table,
)
from analysis.stalls.shares import stall_shares, unavailable
from analysis.stalls.sides import Side, side
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles
from analysis.ui.parts.kernels import COLUMNS
from analysis.ui.shell import frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database, theme

#: Keys, and parameters in the address, of the choice.
BASE, AGAINST, SHOW, UNIT = "base", "against", "show", "difference-unit"
SHOWN = {"differences": f"Differences of {LEAST_POINTS:g} point or more", "all": "All reasons"}
UNITS = {"difference": "Percentage points", "cycles_difference": "Cycles per issue"}

#: Rows of the table of kernels that go to the browser; the command gives all.
MOST_ROWS = 2000


@dataclass(frozen=True)
class Choice:
    """The comparison that a reader asks for."""

    base: Side
    others: tuple[Side, ...]


def pick(chosen: Filter) -> Choice | None:
    """Ask for the baseline and the others; None while there is nothing to compare."""
    places = {
        f"{workload} · {gpu}": (str(dataset), str(workload), str(gpu))
        for dataset, workload, gpu in cached(_comparable, database(), chosen).itertuples(index=False)
    }
    if len(places) < 2:
        return None
    names = list(places)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        base = st.selectbox("Baseline", names, key=BASE, bind="query-params", persist_state="session", width=380)
        base = base if base in places else names[0]
        rest = [name for name in names if name != base]
        others = st.multiselect(
            "Compared with it", rest, default=rest[: min(len(rest), 3)], key=AGAINST, max_selections=MOST_OTHERS,
            bind="query-params", persist_state="session", placeholder="Choose up to five",
        )  # fmt: skip
    sides = [_side(places[name]) for name in [base, *(name for name in others if name in rest)]]
    return Choice(sides[0], tuple(sides[1:])) if len(sides) > 1 else None


def compared(choice: Choice) -> tuple[Comparison, ...]:
    """Return the comparisons, kept while the data stays."""
    return cached(compare_all, database(), choice.base, choice.others)


def answer(found: tuple[Comparison, ...]) -> str:
    """Say the largest difference of each other in words."""
    return markdown.sentence(sentence(found), 4000)


def show(choice: Choice, found: tuple[Comparison, ...]) -> None:
    """Show what differs, kernel by kernel too, and what could not be compared."""
    totals, kernels = table(found, "totals"), table(found, "kernels")
    if len(kernels):  # what stands in another family has no place in a table of differences
        kernels = kernels[kernels["state"] != OTHER_FAMILY]
    totals = totals[totals["state"] != OTHER_FAMILY]
    with st.container(horizontal=True):
        shown = st.segmented_control(
            "Show", list(SHOWN), default="differences", required=True, format_func=SHOWN.__getitem__, key=SHOW,
            label_visibility="collapsed", bind="query-params", persist_state="session",
        )  # fmt: skip
        unit = "difference"
        if totals["cycles_difference"].notna().any():
            unit = st.segmented_control(
                "Unit", list(UNITS), default="difference", required=True, format_func=UNITS.__getitem__, key=UNIT,
                label_visibility="collapsed", bind="query-params", persist_state="session",
            )  # fmt: skip
    only = shown != "all"
    rows = differing(totals) if only else totals
    frame.subheading("The workloads as wholes")
    together = [one for one in found if not one.apart and None not in one.families]
    if together and rows.empty:
        st.markdown(f"No reason differs by {LEAST_POINTS:g} percentage point or more.")
    elif together:
        _charts(choice, together, rows, str(unit or "difference"))
    for number, one in enumerate(one for one in found if one.apart):
        _apart(one, number)
    if any(one.apart for one in found):
        st.caption("This command exports both in one family of metrics, so that they compare reason by reason:")
        st.code(COMMAND, language="sh", wrap_lines=True)
    frame.subheading("Kernel by kernel")
    pairs, unmatched = table(found, "pairs"), table(found, "unmatched")
    st.caption("Kernels are paired by name, grid and block: another problem size is another kernel.")
    if len(pairs):
        part = differing(kernels) if only else kernels
        st.markdown(
            f"**{frame.count(len(pairs), 'kernel')} paired**; {frame.count(len(part), 'difference')} of their reasons."
        )
        frame.data(part.head(MOST_ROWS), name="kernel-differences", columns=COLUMNS)
        st.markdown("**Times of the paired kernels**")
        frame.data(pairs.head(MOST_ROWS), name="kernel-pairs", columns=COLUMNS)
    else:
        st.markdown("No kernel has a partner, so only the workloads as wholes compare.")
    if len(unmatched):
        st.markdown(f"**Without a partner: {frame.count(len(unmatched), 'kernel')}**")
        frame.data(unmatched.head(MOST_ROWS), name="unmatched", columns=COLUMNS)
    _rules(table(found, "top_reasons"))
    _beside(choice)


def _charts(choice: Choice, found: list[Comparison], rows: pd.DataFrame, unit: str) -> None:
    """Draw the differences: one chart for each family of metrics in which others meet the baseline."""
    families = {(one.other.workload, one.other.gpu): one.families for one in found}
    pairs = [families.get(key) for key in rows[["other", "other_gpu"]].itertuples(index=False, name=None)]
    for number, pair in enumerate(pair for pair in dict.fromkeys(pairs) if pair is not None):
        part = rows[np.array([own == pair for own in pairs], dtype=bool)].reset_index(drop=True)
        figure = differences(part, base=choice.base.name, value=unit, theme=theme())
        name = "differences" if number == 0 else f"differences-{number + 1}"
        frame.chart(figure, name=name, alt=alt_text(figure), table=part, columns=COLUMNS)


def _apart(one: Comparison, number: int) -> None:
    """Draw two profiles of different families each for itself: their metrics have no common scale."""
    for place, side_of in enumerate((one.base, one.other)):
        shares = cached(stall_shares, database(), side_of.chosen, "workload")
        family = BY_NAME[str(one.families[place])].title
        st.markdown(f"**{markdown.plain(side_of.name)}, for itself: {family}**")
        figure = stall_bars(shares, unit="share", unavailable=cached(unavailable, database(), side_of.chosen),
                            theme=theme())  # fmt: skip
        name = f"apart-{number + 1}-{place + 1}"
        frame.chart(figure, name=name, alt=alt_text(figure), table=shares, columns=COLUMNS)


def caveats(found: tuple[Comparison, ...]) -> list[str]:
    """Return what limits the comparisons, each said once."""
    several = len(found) > 1
    said = [
        f"{one.other.name}: {text}" if several and one.other.name not in text else text
        for one in found
        for text in one.warnings
    ]
    return list(dict.fromkeys(said))


def _rules(top: pd.DataFrame) -> None:
    if top.empty:
        return
    st.markdown("**Largest reasons that only rule texts name**")
    st.caption("They stand for single kernels and take no part in the differences. This command gets all reasons:")
    st.code(COMMAND, language="sh", wrap_lines=True)
    shown = top.drop_duplicates(["side", "kernel", "reason", "share"]).rename(columns={"share": "top_share"})
    shown = shown.assign(reason=[reason_title(name) for name in shown["reason"]])
    frame.data(shown.drop(columns=["kernel"]), name="rule-texts", columns={**COLUMNS, **configured("reason/rule")})


def _beside(choice: Choice) -> None:
    """Show which waits grew, where an other is the baseline's job taken beside others."""
    known = cached(beside.coruns, database(), Filter(datasets=(choice.base.dataset,), gpus=(choice.base.gpu,)))
    taken = known[known["solo"] == choice.base.workload]
    for one in choice.others:
        if one.gpu != choice.base.gpu or one.workload not in set(taken["workload"]):
            continue
        place = (choice.base.dataset, choice.base.gpu)
        grown = cached(beside.growth, database(), *place, choice.base.workload, one.workload)
        frame.subheading("Alone and beside others: which waits grew")
        st.markdown(markdown.sentence(grown.sentence()))
        if grown.family is None:
            continue
        rows = grown.rows.rename(columns={"title": "reason", "share_solo": "share_base", "share_corun": "share_other"})
        rows = rows.assign(other=one.workload, other_gpu=one.gpu, state="both")
        figure = differences(rows, base=choice.base.name, theme=theme())
        name = f"grew-{choice.others.index(one)}"
        frame.chart(figure, name=name, alt=alt_text(figure), table=grown.rows, columns=COLUMNS)
        with st.expander("By stall reason", icon=":material/table_rows:"):
            frame.data(grown.reasons, name=f"{name}-reasons", columns=COLUMNS)


def _comparable(opened: Database, chosen: Filter) -> pd.DataFrame:
    """Return the profiles of the choice: those with stall metrics first, then those with rule texts, then the rest."""
    found = profiles.workloads(opened, chosen)
    kinds = profiles.holdings(opened, chosen)
    ranked = found.merge(kinds, on=["dataset", "workload", "gpu"], how="left")
    ranked["rank"] = ranked["stalls"].fillna(False).astype(int) * 2 + ranked["rules"].fillna(False).astype(int)
    ordered = ranked.sort_values("rank", ascending=False, kind="stable")
    # A profile with neither has durations at most; it is offered, but never chosen before the others.
    return ordered[["dataset", "workload", "gpu"]]


def _side(place: tuple[str, str, str]) -> Side:
    dataset, workload, gpu = place
    return cached(side, database(), Filter(datasets=(dataset,), workloads=(workload,), gpus=(gpu,)))
