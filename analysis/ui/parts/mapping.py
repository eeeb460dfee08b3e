"""Mapping by hand: say which column of a table fills which field, see ten rows as they would load, save it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from analysis.errors import StallScopeError
from analysis.ingest import mapping
from analysis.ingest.contract.aside import what_aside
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import stem
from analysis.ingest.mapping import FIELDS, REQUIRED, Kind, TableMapping
from analysis.ingest.source.opening import opened_files
from analysis.ui.shell import access, frame, markdown
from analysis.ui.shell.resources import database

_KINDS: dict[str, Kind] = {"Co-runs: one row for each job of each co-run": "own-coruns",
                           "Profiles: one row for each kernel, or for a whole job": "own-profiles"}  # fmt: skip
#: Fields beyond the required ones that most tables have.
_USUAL = {
    "own-coruns": ("gpu", "mechanism", "solo_throughput", "solo_time", "unit", "batch_size"),
    "own-profiles": ("gpu", "kernel", "duration_us", "invocations", "solo_throughput", "batch_size"),
}


def editor(path: Path, name: str, columns: list[str], key: str) -> bool:
    """Let the user map a table that no format claims.

    Parameters
    ----------
    path : Path
        The spooled file.
    name : str
        As the user knows it.
    columns : list of str
        Its columns.
    key : str
        Keeps the widgets of several files apart.

    Returns
    -------
    bool
        Whether a mapping was saved in this run, so that the file can be read by it.
    """
    with st.expander("Map its columns by hand", icon=":material/conversion_path:", expanded=False):
        chosen = st.radio("What does the table hold?", list(_KINDS), key=f"map-kind-{key}", horizontal=True)
        kind = _KINDS[chosen or next(iter(_KINDS))]
        st.caption("Pick a column for a field, or type what holds for every row, such as the GPU or the mechanism.")
        fields, constants = _fields(kind, columns, key)
        metrics: list[str] = []
        if kind == "own-profiles":
            left = [column for column in columns if column not in fields.values()]
            metrics = st.multiselect("Columns to keep as metrics", left, key=f"map-metrics-{key}")
        title = st.text_input("Name of the mapping", value=stem(name), key=f"map-name-{key}", width=360)
        made = TableMapping(
            name=(title or "").strip() or stem(name), kind=kind, header=columns, columns=fields, constants=constants,
            metrics=metrics,
        )  # fmt: skip
        problems = made.problems()
        if problems:
            st.info(" ".join(markdown.sentence(text) for text in problems))
            return False
        if not _shown(path, name, made):
            return False
        if access.button("Save the mapping", icon=":material/save:", key=f"map-save-{key}", type="primary"):
            _save(made)
            return True
    return False


@access.editing
def _save(made: TableMapping) -> None:
    mapping.save(database(), made)


def _fields(kind: Kind, columns: list[str], key: str) -> tuple[dict[str, str], dict[str, str]]:
    """Ask for the column or the text of every field; the usual ones first."""
    needed = [name for names in REQUIRED[kind] for name in names]
    first = list(dict.fromkeys([*needed, *_USUAL[kind]]))
    rest = [column.name for column in FIELDS[kind] if column.name not in first]
    guessed = mapping.suggest(columns, kind)
    meaning = {column.name: column.meaning for column in FIELDS[kind]}
    fields: dict[str, str] = {}
    constants: dict[str, str] = {}

    def ask(names: list[str]) -> None:
        places = st.columns(3)
        for number, name in enumerate(names):
            value = places[number % 3].selectbox(
                f"`{name}`", columns, key=f"map-{kind}-{name}-{key}", help=meaning[name], accept_new_options=True,
                index=columns.index(guessed[name]) if name in guessed else None, placeholder="not in the table",
            )  # fmt: skip
            if value in columns:
                fields[name] = value
            elif value and value.strip():
                constants[name] = value.strip()

    ask(first)
    with st.expander(f"{len(rest)} more fields", type="compact"):
        ask(rest)
    return fields, constants


def _shown(path: Path, name: str, made: TableMapping) -> bool:
    """Show the first rows as they would load, and what would be rejected."""
    try:
        with opened_files(path, name=name) as files:
            rows, parsed = mapping.preview_rows(files[0], made, Hints())
    except StallScopeError as error:
        st.warning(markdown.sentence(error.sentence, 600))
        return False
    used = parsed.rows_loaded - parsed.rows_set_aside
    st.markdown(f"**{frame.count(used, 'row')}** would load; the first of them:")
    st.dataframe(rows, hide_index=True)
    for rule, rows_aside in parsed.set_aside.items():
        st.caption(f"{frame.count(rows_aside, 'row')} would be set aside: {what_aside(rule)}.")
    if parsed.rows_rejected:
        st.warning(f"{frame.count(parsed.rows_rejected, 'row')} would be rejected, for these reasons:")
        st.dataframe(parsed.rejected.head(mapping.SHOWN), hide_index=True)
    return True
