"""Who hurts whom, on which GPU?"""

import numpy as np
import streamlit as st

from analysis.charts.slowdown_heatmap import MOST, slowdown_heatmap, slowdown_multiples
from analysis.charts.theme import alt_text
from analysis.interference.finding import named
from analysis.interference.matrix import MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.interference.metrics import together_per_100
from analysis.interference.order import ORDERS, order
from analysis.numbers import slowdown
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui import cell, empty, filters, frame, matrix
from analysis.ui.markdown import plain
from analysis.ui.navigation import CORUNS
from analysis.ui.resources import cached, database, theme

QUESTION = "Who hurts whom, on which GPU?"
SIDE_BY_SIDE = "Side by side"
VALUES = {
    "slowdown": "Slowdown",
    "together": "Time together",
    "stp": "STP",
    "antt": "ANTT",
    "fairness": "Fairness",
    "p99": "p99 inflation",
}
ORDER_WORDS = {
    "name": "by name",
    "family": "by family",
    "sensitivity": "most sensitive first",
    "pressure": "most aggressive first",
    "cluster": "alike side by side",
}


def measured_gpus(name: str, chosen: Filter) -> list[str]:
    """Return the GPUs with co-runs, those with the most first, as far as the filter keeps them."""
    table = cached(coruns.gpus_and_mechanisms, database(), name)
    ranked = table.groupby("gpu")["runs"].sum().sort_values(ascending=False, kind="stable")
    return [str(gpu) for gpu in ranked.index if not chosen.gpus or gpu in chosen.gpus]


def load(name: str, gpu: str, chosen: Filter, how: str) -> SlowdownMatrix:
    """Return one matrix, restricted to the chosen workloads and in the chosen order."""
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    found = cached(slowdown_matrix, database(), name, gpu, mechanism)
    if chosen.workloads or chosen.families or chosen.phases:
        kept = set(cached(sources.workloads, database(), chosen)["workload"])
        found = found.reordered([place for place, job in enumerate(found.workloads) if job in kept])
    return found.reordered(order(found, how))


def answer(found: SlowdownMatrix) -> str:
    """Say what sharing costs here, at the median and at worst, and which pair gains most; flagged cells don't count."""
    sound = found.state == MEASURED
    values = np.where(sound, found.slowdown, np.nan)
    if np.isnan(values).all():
        return f"No sound co-run was measured on {plain(found.gpu)} in this choice."
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    text = (
        f"On **{plain(found.gpu)}**{f' under {plain(found.mechanism)}' if found.mechanism else ''} a job takes "
        f"**{slowdown(float(np.nanmedian(values)))}** as long beside another as alone, at the median. Hurt most is "
        f"{plain(found.workloads[row])} beside {plain(found.workloads[column])}: "
        f"**{slowdown(float(values[row, column]))}**."
    )
    stp = np.where(sound & sound.T, found.stp, np.nan)
    if np.isfinite(stp).any():
        row, column = np.unravel_index(np.nanargmax(stp), stp.shape)
        first, second = plain(found.workloads[row]), plain(found.workloads[column])
        both = f"two of {first}" if row == column else f"{first} and {second}"
        minutes = float(together_per_100(stp[row, column]))
        text += f" Best together are {both}: **{minutes:.0f} min** for what takes 100 one after the other."
    return text


def controls(gpus: list[str], has_p99: bool) -> tuple[str, str, str]:
    """Ask for the GPU, the value and the order; each stands in the address."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view = gpus[0]
        if len(gpus) > 1:
            view = st.segmented_control(
                "GPU", [*gpus, SIDE_BY_SIDE], default=gpus[0], required=True, key="view", bind="query-params",
                persist_state="session",
            )  # fmt: skip
        shown = [name for name in VALUES if name != "p99" or has_p99]
        value = st.selectbox(
            "Colour",
            shown,
            format_func=VALUES.__getitem__,
            key="colour",
            width=180,
            bind="query-params",
            persist_state="session",
        )
        how = st.selectbox(
            "Order", list(ORDERS), format_func=lambda name: ORDER_WORDS.get(name, name), key="order", width=200,
            bind="query-params", persist_state="session",
        )  # fmt: skip
    return str(view or gpus[0]), str(value), str(how)


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen(*CORUNS)
    gpus = measured_gpus(name, chosen) if name else []
    if name is None or not gpus:
        frame.header(QUESTION, chosen if name else None)
        empty.state("There are no co-runs of this choice yet.", empty.CORUN)
        return
    members = cached(coruns.gpus_and_mechanisms, database(), name)
    heading = st.container()
    picture = st.container()
    view, value, how = st.session_state.get("view"), "slowdown", "name"
    with picture:
        has_p99 = bool(cached(coruns.members, database(), Filter(datasets=(name,)))["p99_corun_ms"].notna().any())
        view, value, how = controls(gpus, has_p99)
    wanted = gpus if view == SIDE_BY_SIDE else [view if view in gpus else gpus[0]]
    found = {gpu: load(name, gpu, chosen, how) for gpu in wanted}
    with heading:
        frame.header(QUESTION, chosen, simulated=any(one.simulated for one in found.values()))
        frame.answer(answer(next(iter(found.values()))))
    with st.container():
        st.subheader("One pair", anchor=False)
        # Asked before the picture is drawn, which outlines what an address names.
        picked = matrix.pickers(found)
        if picked is None:
            st.caption("Click a cell above, or choose both jobs here, to see the runs behind it.")
        else:
            gpu, slowed, beside = picked
            cell.panel(found[gpu], slowed, beside)
    with picture:
        draw(found, value)
    rests(found, members["mechanism"].nunique())


def draw(found: dict[str, SlowdownMatrix], value: str) -> None:
    """Draw one matrix to click, or several on one scale."""
    if any(len(one.workloads) > MOST for one in found.values()):
        st.info(
            f"More than {MOST} workloads are too many for one picture: choose a family or workloads in the sidebar."
        )
        return
    if len(found) > 1:
        figure = slowdown_multiples(list(found.values()), values=value, theme=theme())
        st.plotly_chart(figure, theme=None, key="multiples", alt=alt_text(figure), config={"displaylogo": False})
        for gpu, one in found.items():
            with st.expander(f"{plain(gpu)} as a table", icon=":material/table_rows:"):
                frame.data(one.table(), name=f"slowdown-{gpu}")
        return
    one = next(iter(found.values()))
    picked = matrix.chosen(found)
    figure = slowdown_heatmap(one, values=value, selected=picked[1:] if picked else None, theme=theme())
    matrix.show(one, figure, alt=alt_text(figure))


def rests(found: dict[str, SlowdownMatrix], mechanisms: int) -> None:
    """Say what the matrices rest on, and what was decided on the way."""
    frame.basis(
        frame.count(sum(one.n for one in found.values()), "run of two", "runs of two"),
        frame.count(len({job for one in found.values() for job in one.workloads}), "workload"),
        frame.count(max(one.sources for one in found.values()), "source"),
        simulated=any(one.simulated for one in found.values()),
    )
    notes = list(dict.fromkeys(note for one in found.values() for note in one.notes))
    flagged = sorted({job for one in found.values() for job in one.flagged})
    if flagged:
        notes.insert(
            0,
            f"The solo baselines of {frame.count(len(flagged), 'workload')} are doubtful: {named(flagged)}. "
            "Their cells are flagged.",
        )
    frame.caveats(notes)


page()
