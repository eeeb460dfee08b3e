"""Does it carry over to another GPU?"""

import streamlit as st

from analysis.interference.architectures import matrices, same_pairs, transfers
from analysis.store.queries import sources
from analysis.ui.parts import architectures
from analysis.ui.shell import empty, filters, frame
from analysis.ui.shell.navigation import CORUNS
from analysis.ui.shell.resources import cached, database

QUESTION = "Does it carry over to another GPU?"


def page() -> None:
    name = filters.dataset()
    chosen = filters.chosen(*CORUNS)
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    found = cached(matrices, database(), name, mechanism, chosen.gpus) if name else {}
    if len(found) < 2:
        frame.header(QUESTION, chosen if name else None)
        if found:
            architectures.one_gpu(next(iter(found)))
        empty.state("The same pairs on two GPUs are needed, in one data set and under one mechanism.", empty.CORUN)
        return
    heading = st.container()
    gpus = list(found)
    source, target, limit = architectures.controls(gpus)
    kept = set(cached(sources.workloads, database(), chosen.with_(gpus=()))["workload"])
    pairs = same_pairs(found)
    pairs = pairs[pairs["workload"].isin(kept) & pairs["beside"].isin(kept)]
    table = transfers(pairs, limit)
    simulated = any(one.simulated for one in found.values())
    with heading:
        frame.header(QUESTION, chosen, simulated=simulated, about="coruns")
        frame.answer(architectures.answer(table, source, target, limit))
    architectures.warning(table)
    architectures.picture(pairs, source, target, limit)
    architectures.sides(pairs, source, target, limit)
    architectures.all_transfers(table)
    frame.basis(
        frame.count(sum(one.n for one in found.values()), "run of two", "runs of two"),
        frame.count(len(found), "GPU"),
        next(iter(found.values())).mechanism,
        simulated=simulated,
    )
    frame.caveats(list(dict.fromkeys(note for one in found.values() for note in one.notes)))


page()
