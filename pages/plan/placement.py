"""Where do my jobs go?"""

import streamlit as st

from analysis.errors import StallScopeError
from analysis.plan import wording
from analysis.ui.parts import placement
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.navigation import link

QUESTION = "Where do my jobs go?"


def page() -> None:
    name = filters.dataset()
    places = placement.gpus_of(name) if name else []
    if name is None or not places:
        frame.header(QUESTION, filters.chosen("dataset") if name else None)
        empty.state("There are no co-runs to place jobs by.", empty.CORUN)
        return
    heading = st.container()
    try:
        asked = placement.ask(name, places)
        found = placement.answer(asked) if asked is not None else None
    except StallScopeError as error:
        with heading:
            frame.header(QUESTION, filters.chosen("dataset"))
            frame.answer("This question has no answer.")
        st.error(sentence(error.sentence), icon=":material/error:")
        return
    if found is None or asked is None:
        with heading:
            frame.header(QUESTION, filters.chosen("dataset"))
            frame.answer("The plan is being made." if asked else "Name the jobs and the GPUs.")
        return
    simulated = any(one.simulated for one in found.plan.placements)
    with heading:
        frame.header(QUESTION, filters.chosen("dataset"), simulated=simulated, about="coruns")
        frame.answer(plain(wording.answer(found), 600))
    shown = placement.board(asked, found)
    placement.gains(found)
    placement.record(name)
    placement.measure_next(found)
    placement.splits(asked, shown)
    placement.export(found, shown)
    frame.basis(
        frame.count(found.plan.considered, "set considered", "sets considered"),
        f"model {found.model_id}" if found.model_id else "measured sets, no model",
        f"limit {found.plan.problem.limit:g} x",
        simulated=simulated,
    )
    frame.caveats(list(found.notes))
    link("partners", "All pairs", dataset=name)


page()
