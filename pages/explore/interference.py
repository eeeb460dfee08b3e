"""Who hurts whom, on which GPU?"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from analysis.interference.finding import named
from analysis.interference.matrix import SlowdownMatrix
from analysis.interference.matrix_order import members_of
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.parts import cell, interference
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import plain
from analysis.ui.shell.navigation import CORUNS, link
from analysis.ui.shell.resources import cached, database

QUESTION = "Who hurts whom, on which GPU?"


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen(*CORUNS)
    gpus = interference.measured_gpus(name, chosen) if name else []
    if name is None or not gpus:
        frame.header(QUESTION, chosen if name else None)
        empty.state("There are no co-runs of this choice yet.", empty.CORUN)
        return
    heading, picture = st.container(), st.container()
    known = cached(sources.workloads, database(), chosen)
    largest = max((interference.load(name, gpu, chosen) for gpu in gpus), key=lambda one: len(one.workloads))
    kinds = interference.groupings(largest, known)
    with picture:
        has_p99 = bool(cached(coruns.members, database(), Filter(datasets=(name,)))["p99_corun_ms"].notna().any())
        view = interference.controls(name, gpus, has_p99, kinds)
    found = {gpu: interference.load(name, gpu, chosen) for gpu in view.gpus}
    simulated = any(one.simulated for one in found.values()) or bool(view.model and view.model.simulated)
    with heading:
        frame.header(QUESTION, chosen, simulated=simulated)
        frame.answer(interference.answer_of(list(found.values()), view))
    if view.group == "workload":
        one_pair(found, view, picture)
    else:
        groups(found, view, picture)
    rests(found, view)


def one_pair(found: dict[str, SlowdownMatrix], view: interference.View, picture: DeltaGenerator) -> None:
    """Show the matrices, and the panel of the chosen cell below them."""
    with st.container():
        frame.subheading("One pair")
        # Asked before the picture is drawn, which outlines what an address names.
        picked = interference.pickers(found)
        if picked is None:
            st.caption("Click a cell above, walk its table with the keyboard, or choose both jobs here.")
        else:
            cell.panel(found[picked[0]], picked[1], picked[2])
    with picture:
        interference.draw(found, view)


def groups(found: dict[str, SlowdownMatrix], view: interference.View, picture: DeltaGenerator) -> None:
    """Show the matrices of groups; the chosen two groups open into the matrix of their workloads."""
    known = cached(sources.workloads, database(), Filter(datasets=(next(iter(found.values())).dataset,)))
    noun = interference.GROUPINGS[view.group][1]
    names = {gpu: interference.group_names(one, view.group, known) for gpu, one in found.items()}
    with picture:
        picked = interference.group_pickers(sorted({name for part in names.values() for name in part}), noun)
        interference.draw_groups(found, names, view, picked)
    if picked is None:
        st.caption(f"Click a cell, or choose two {noun} above it, to open them into their workloads.")
        return
    opened = {gpu: members_of(one, names[gpu], picked) for gpu, one in found.items()}
    frame.subheading(" beside ".join(dict.fromkeys(plain(name) for name in picked)))
    one_pair(opened, view, st.container())


def rests(found: dict[str, SlowdownMatrix], view: interference.View) -> None:
    """Say what the matrices rest on, and what was decided on the way."""
    frame.basis(
        frame.count(sum(one.n for one in found.values()), "run of two", "runs of two"),
        frame.count(len({job for one in found.values() for job in one.workloads}), "workload"),
        frame.count(max(one.sources for one in found.values()), "source"),
        f"predictions of {view.model.title}" if view.model else "",
        simulated=any(one.simulated for one in found.values()),
    )
    said = list(dict.fromkeys(note for one in found.values() for note in one.notes))
    flagged = sorted({job for one in found.values() for job in one.flagged})
    if flagged:
        said.insert(
            0,
            f"The solo baselines of {frame.count(len(flagged), 'workload')} are doubtful: {named(flagged)}. "
            "Their cells are flagged.",
        )
    frame.caveats(said)
    with st.container(horizontal=True):
        link("partners", "Who may sit beside a job")
        link("architectures", "The same pairs on other GPUs")


page()
