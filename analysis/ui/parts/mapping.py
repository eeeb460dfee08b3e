"""Mapping by hand: say which column of a table fills which field, see ten rows as they would load, save it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from analysis.errors import StallScopeError
from analysis.ingest import mapping
from analysis.ingest.contract.aside import what_aside
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import stem
from analysis.ingest.formats.own.shapes import SHAPES, Shape
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
        guess = _proposed(path, name) if kind == "own-coruns" else None
        shape = _shape(guess, key) if kind == "own-coruns" else "job"
        fields, constants = _fields(kind, columns, key, shape, guess if guess and guess.shape == shape else None)
        metrics: list[str] = []
        if kind == "own-profiles":
            left = [column for column in columns if column not in fields.values()]
            metrics = st.multiselect("Columns to keep as metrics", left, key=f"map-metrics-{key}")
        title = st.text_input("Name of the mapping", value=stem(name), key=f"map-name-{key}", width=360)
        made = TableMapping(
            name=(title or "").strip() or stem(name), kind=kind, header=columns, columns=fields, constants=constants,
            metrics=metrics, shape=shape, **_matrix(shape, columns, fields, guess, key),
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


def _proposed(path: Path, name: str) -> TableMapping | None:
    """Return the shape that the table itself shows."""
    try:
        with opened_files(path, name=name) as files:
            return mapping.proposed(files[0], stem(name))
    except StallScopeError:
        return None


def _shape(guess: TableMapping | None, key: str) -> Shape:
    """Ask what a row is; what the columns show is chosen already."""
    shapes = list(SHAPES)
    return st.selectbox(
        "What is a row?", shapes, index=shapes.index(guess.shape) if guess else 0, key=f"map-shape-{key}",
        format_func=lambda shape: f"{SHAPES[shape][0].upper()}{SHAPES[shape][1:]}",
        help="Proposed from the columns." if guess else "The columns don't tell.",
    )  # fmt: skip


def _matrix(
    shape: Shape, columns: list[str], fields: dict[str, str], guess: TableMapping | None, key: str
) -> dict[str, Any]:
    """Ask which columns of a matrix are the jobs beside, and what its cells are."""
    if shape != "matrix":
        return {}
    left = [column for column in columns if column not in fields.values()]
    known = guess.beside if guess else {}
    beside = st.multiselect(
        "Columns of the jobs beside", left, default=[column for column in left if not known or column in known],
        key=f"map-beside-{key}",
    )  # fmt: skip
    measures = ["slowdown", "corun_share", "slowdown_percent", "corun_time", "corun_throughput"]
    measure = st.selectbox(
        "What the cells are", measures, index=measures.index(guess.measure) if guess else 0, key=f"map-measure-{key}"
    )
    return {"beside": {column: known.get(column, column) for column in beside}, "measure": measure or "slowdown"}


def _fields(
    kind: Kind, columns: list[str], key: str, shape: Shape = "job", guess: TableMapping | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Ask for the column or the text of every field; the usual ones first."""
    known = {column.name: column for column in FIELDS[kind]}
    if shape != "job":
        known |= mapping.EXTRA
    meaning = {name: column.meaning for name, column in known.items()}
    required = REQUIRED[kind] if shape == "job" else mapping.REQUIRED_BY_SHAPE[shape]
    needed = [name for names in required for name in names]
    first = list(dict.fromkeys([*needed, *_USUAL[kind]]))
    rest = [name for name in known if name not in first]
    if shape == "set":
        places_found = [int(name.split(".")[1]) for name in (guess.columns if guess else {}) if "." in name]
        count = int(st.number_input("Jobs in a row", 2, 8, max([2, *places_found]), key=f"map-jobs-{key}"))
        each = ("workload", "slowdown", "solo_throughput", "corun_throughput", "solo_time", "corun_time")
        first = [f"{name}.{number}" for number in range(1, count + 1) for name in each] + ["gpu", "mechanism", "unit"]
        more = [name for name in known if name not in (*each, "gpu", "mechanism", "unit")]
        rest = [*more, *(f"{name}.{number}" for number in range(1, count + 1) for name in more if name != "jobs")]
    elif shape == "matrix":
        first, rest = ["workload", "gpu", "mechanism", "unit"], ["solo_time", "solo_throughput"]
    guessed = dict(guess.columns) if guess else mapping.suggest(columns, kind)
    fixed = dict(guess.constants) if guess else {}
    first += [name for name in guessed if name not in first]
    rest = [name for name in rest if name not in first]
    fields: dict[str, str] = {}
    constants: dict[str, str] = {}

    def ask(names: list[str]) -> None:
        places = st.columns(3)
        for number, name in enumerate(names):
            value = places[number % 3].selectbox(
                f"`{name}`", [*columns, *([fixed[name]] if name in fixed else [])],
                key=f"map-{kind}-{shape}-{name}-{key}", help=meaning[name.split(".")[0]], accept_new_options=True,
                index=columns.index(guessed[name]) if name in guessed else len(columns) if name in fixed else None,
                placeholder="not in the table",
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
    if "run" in parsed.frames:
        st.markdown(f"They are **{frame.count(len(parsed.frames['run']), 'run')}**.")
    st.markdown(f"**{frame.count(used, 'row')}** would load; the first of them:")
    st.dataframe(rows, hide_index=True)
    for text in parsed.warnings[1:]:
        st.caption(markdown.sentence(text, 400))
    for rule, rows_aside in parsed.set_aside.items():
        st.caption(f"{frame.count(rows_aside, 'row')} would be set aside: {what_aside(rule)}.")
    if parsed.rows_rejected:
        st.warning(f"{frame.count(parsed.rows_rejected, 'row')} would be rejected, for these reasons:")
        st.dataframe(parsed.rejected.head(mapping.SHOWN), hide_index=True)
    return True
