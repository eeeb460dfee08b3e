"""Which profile belongs to which workload of the co-runs: proposed, and the user's to confirm or change."""

from __future__ import annotations

import streamlit as st

from analysis.ingest import matching
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.ui.shell import access, markdown
from analysis.ui.shell.resources import cached, database

_NONE = "None of them"


def confirm(dataset: str) -> None:
    """Show the proposed matches of a data set; nothing when every profile already meets its co-runs."""
    proposed = cached(matching.propose, database(), dataset)
    if proposed.empty:
        return
    members = cached(coruns.members, database(), Filter(datasets=(dataset,)))
    options = [_NONE, *sorted({str(name) for name in members["workload"]})]
    with st.container(border=True, key="matches"):
        st.markdown("**Which profile belongs to which job of your co-runs?**")
        st.caption("Proposed by model, batch size and precision. Confirmed matches make one workload of the two names.")
        mapping: dict[str, str] = {}
        for row in proposed.astype(str).to_dict("records"):
            name, guess = row["profile_workload"], row["corun_workload"]
            left, right = st.columns([1, 1], vertical_alignment="center")
            why = markdown.plain(row["reason"], 200)
            left.markdown(f"{markdown.plain(name)}  \n:small[:gray[{why}]]")
            picked = right.selectbox(
                f"Workload of the co-runs for {name}",
                options,
                index=options.index(guess) if guess in options else 0,
                key=f"match-{dataset}-{name}",
                label_visibility="collapsed",
            )
            if picked != _NONE:
                mapping[name] = str(picked)
        if access.button(
            "Confirm the matches", type="primary", icon=":material/link:", disabled=not mapping, key="confirm-matches"
        ):
            apply(dataset, mapping)
            st.toast(f"{len(mapping)} matched.")
            st.rerun()


@access.editing
def apply(dataset: str, mapping: dict[str, str]) -> None:
    """Make one workload of two names, for each pair."""
    matching.apply(database(), dataset, mapping)
