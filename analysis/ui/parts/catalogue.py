"""Cards of the public data sets, and the work of loading one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from analysis.ingest.catalogue import CatalogueEntry, load_dataset
from analysis.jobs.runner import Progress
from analysis.ui.parts import outcome
from analysis.ui.shell import access, frame, markdown, navigation
from analysis.ui.shell.resources import database, jobs
from analysis.ui.shell.spool import Spooled, spool

KIND = "catalogue"


def card(entry: CatalogueEntry, *, loaded: bool, lacking: Sequence[str] = ()) -> None:
    """Show one data set: what it is, on which GPUs, under which licence, how large; and load it.

    Parameters
    ----------
    entry : CatalogueEntry
        The data set.
    loaded : bool
        Whether it is in the database.
    lacking : sequence of str
        Names of needed files that a load which was ended has not brought.
    """
    with st.container(border=True, key=f"card-{entry.name}", height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{markdown.plain(entry.title, 120)}**", width="stretch")
            if lacking:
                st.badge("Incomplete", icon=":material/warning:", color="orange")
            elif loaded:
                st.badge("Loaded", icon=":material/check:", color="green")
        if lacking:
            st.warning(
                f"{markdown.plain(' and '.join(lacking), 300)} of it {'is' if len(lacking) == 1 else 'are'} missing: "
                "a load was ended before its end. Load it again, which brings what is missing."
            )
        st.markdown(markdown.sentence(entry.about))
        st.caption(
            f"{markdown.plain(', '.join(entry.gpus))} · {markdown.plain(', '.join(entry.mechanisms), 160)} · "
            f"{_size(entry.size)} in {frame.count(len(entry.files), 'file')}  \n"
            f"Licence: {markdown.plain(entry.licence, 200)}  \n{markdown.plain(entry.citation, 400)}"
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            if loaded:
                navigation.link("overview", "Look at it", dataset=entry.name)
            words = "Complete it" if lacking else "Load again" if loaded else "Load"
            if entry.downloadable and access.button(words, icon=":material/download:", key=f"load-{entry.name}"):
                _submit(entry.name, [])
        if not loaded or not entry.downloadable:
            with st.expander("Load from local copies", type="compact"):
                _local(entry)


def _size(count: int) -> str:
    """Return a number of bytes for people."""
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def _local(entry: CatalogueEntry) -> None:
    """Take local copies of the files."""
    names = ", ".join(f"{file.name}{' (optional)' if file.optional else ''}" for file in entry.files)
    st.caption(f"Files: {markdown.plain(names, 300)}. They are recognised by their content.")
    key = f"copies-{entry.name}-{st.session_state.get(f'round-{entry.name}', 0)}"
    files = st.file_uploader(
        "Local copies", accept_multiple_files=True, key=key, label_visibility="collapsed",
        disabled=not access.may_edit(),
    )  # fmt: skip
    own = st.text_input(
        "Own data set, for a version that differs from what was published", key=f"own-{entry.name}",
        placeholder=f"my-{entry.name}", disabled=not access.may_edit(),
    )  # fmt: skip
    if files and access.button("Load these copies", icon=":material/database_upload:", key=f"local-{entry.name}"):
        kept = spool(files)
        st.session_state[f"round-{entry.name}"] = st.session_state.get(f"round-{entry.name}", 0) + 1
        _submit(entry.name, kept, own.strip())


@access.editing
def _submit(name: str, copies: Sequence[Spooled], own: str = "") -> None:
    opened = database()

    def work(progress: Progress) -> dict[str, Any]:
        try:
            names = {copy.path: copy.name for copy in copies}
            reports = load_dataset(opened, name, list(names), dataset=own or None, progress=progress, names=names)
        finally:
            for copy in copies:
                copy.discard()
        return {"dataset": own or name, "reports": [report.model_dump(mode="json") for report in reports]}

    st.session_state["job-catalogue"] = jobs().submit(KIND, {"dataset": name}, work, lane="load")
    st.rerun()


def loaded(result: dict[str, Any]) -> None:
    """Show what the last load brought."""
    with st.container(border=True, key="catalogue-outcome"):
        st.markdown(f"{markdown.plain(result['dataset'])}: {outcome.sentence(result['reports'])}")
        outcome.rows(result["reports"])
        navigation.link("overview", "Look at it", dataset=str(result["dataset"]))
