"""Uploading: drop files, see what each one is, correct its workload and GPU, load, and take it back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from analysis.errors import CancelledError, StallScopeError
from analysis.ingest import mapping, matching
from analysis.ingest.contract.aside import what_aside
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.guesses import stem
from analysis.ingest.formats.own.shapes import SHAPES, Shape
from analysis.ingest.formats.own.templates import TEMPLATES, column_table
from analysis.ingest.importer import Preview, import_all
from analysis.ingest.mapping import FIELDS, REQUIRED, Kind, TableMapping, saved
from analysis.ingest.source.opening import opened_files
from analysis.ingest.worker import reader_for
from analysis.jobs.runner import Progress
from analysis.reference import gpus
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import find_duplicate, remove_source
from analysis.store.queries import coruns
from analysis.ui.parts import outcome
from analysis.ui.shell import access, frame, markdown
from analysis.ui.shell.resources import cached, database, jobs
from analysis.ui.shell.spool import Spooled, spool

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
            **_settings(shape, fields, guess),
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


def _settings(shape: Shape, fields: dict[str, str], guess: TableMapping | None) -> dict[str, Any]:
    """Keep what was proposed of columns that differ by a setting alone, and of columns in other units."""
    if guess is None or guess.shape != shape:
        return {}
    across = {column: told for column, told in guess.across.items() if column not in fields.values()}
    for setting in dict.fromkeys(setting for _, setting in across.values()):
        named = ", ".join(f"`{column}` is `{key}`" for column, (key, told) in across.items() if told == setting)
        st.caption(f"{guess.varies.capitalize()} {setting}: {named}.")
    return {"across": across, "varies": guess.varies, "factors": guess.factors}


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
    if kind == "own-coruns":
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
    st.dataframe(rows, hide_index=True, placeholder="–")
    for text in parsed.warnings[1:]:
        st.caption(markdown.sentence(text, 400))
    for rule, rows_aside in parsed.set_aside.items():
        st.caption(f"{frame.count(rows_aside, 'row')} would be set aside: {what_aside(rule)}.")
    if parsed.rows_rejected:
        st.warning(f"{frame.count(parsed.rows_rejected, 'row')} would be rejected, for these reasons:")
        st.dataframe(parsed.rejected.head(mapping.SHOWN), hide_index=True, placeholder="–")
    return True


KIND = "import"
_STATE = "upload"


@dataclass
class Pending:
    """A spooled file that waits for the user's word, and what it looks like."""

    file: Spooled
    seen: Preview
    duplicate: int | None

    @property
    def loadable(self) -> bool:
        """Whether loading it would bring anything."""
        return self.seen.error is None and self.duplicate is None


@dataclass
class State:
    """Where one session stands with its upload."""

    round: int = 0
    pending: list[Pending] = field(default_factory=list)
    job: str | None = None
    undone: bool = False
    #: Files of the last drop whose bytes wait already, with the name they wait under.
    repeated: list[tuple[str, str]] = field(default_factory=list)


def state() -> State:
    """Return the upload of this session."""
    found: State = st.session_state.setdefault(_STATE, State())
    return found


def drop_zone() -> None:
    """Take files; what arrives is written to disk, looked at, and let go of in memory."""
    current = state()
    allowed = access.may_edit()
    if not allowed:
        st.info(access.why_not(), icon=":material/lock:")
    files = st.file_uploader(
        "Profiles, co-run tables, telemetry: drop any number of files",
        accept_multiple_files=True,
        key=f"files-{current.round}",
        disabled=not allowed,
        help="Nsight Compute (ncu --csv), Nsight Systems, nvprof, PyTorch traces, nvidia-smi and DCGM logs, Slurm "
        "accounts, co-run and profile tables, and the public data sets. Packed files (gzip, bzip2, xz, zstd, lz4) and "
        "archives (zip, tar) are fine.",
    )
    if not files:
        return
    known = {item.file.sha256: item.file.name for item in current.pending}
    current.repeated = []
    with st.status(f"Looking at {frame.count(len(files), 'file')} …", expanded=False) as status:
        spooled = spool(files)
        with reader_for([item.path for item in spooled], spool=database().spool) as reader:
            for item in spooled:
                if item.sha256 in known:
                    item.discard()
                    current.repeated.append((item.name, known[item.sha256]))
                    continue
                known[item.sha256] = item.name
                status.update(label=f"Looking at {markdown.plain(item.name)} …")
                seen = reader.preview(item.path, item.name, saved(database()))
                current.pending.append(Pending(item, seen, find_duplicate(database(), item.sha256)))
    # A new key empties the widget, and with it the server's memory.
    current.round += 1
    current.job = None
    st.rerun()


def form() -> None:
    """Show what waits to be loaded, its workload and GPU open to correction, and load it."""
    current = state()
    for name, first in current.repeated:
        st.info(
            f"{markdown.plain(name)} holds the same bytes as {markdown.plain(first)}; it is loaded once.",
            icon=":material/content_copy:",
        )
    if not current.pending:
        return
    ready = [item for item in current.pending if item.loadable]
    st.subheader("What these files are", anchor=False)
    with st.container(border=True, key="pending", gap="small"):
        for number, item in enumerate(current.pending):
            if number:
                st.divider()
            _row(item)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input(
            "Data set",
            value="own",
            key="upload-dataset",
            width=260,
            help="Files of one campaign belong into one data set; data sets are never pooled.",
        )
        if st.button(
            f"Load {frame.count(len(ready), 'file')}",
            type="primary",
            icon=":material/database_upload:",
            disabled=not ready,
            key="load",
        ):
            _submit(current, (name or "").strip() or "own")
        if st.button("Discard", icon=":material/delete:", key="discard"):
            for item in current.pending:
                item.file.discard()
            current.pending.clear()
            st.rerun()


def _reading(item: Pending, key: str) -> None:
    """How a waiting file was read, what was noticed, and which of its rows would not be taken."""
    count = item.seen.rejected_count
    label = ["How it was read"]
    label += [frame.count(len(item.seen.warnings), "note")] if item.seen.warnings else []
    label += [f"{frame.count(count, 'row')} would be rejected"] if count else []
    with st.expander(" · ".join(label), type="compact"):
        outcome.account_lines(item.seen.account)
        for text in item.seen.warnings:
            st.caption(f":orange[:material/warning:] {markdown.sentence(text, 600)}")
        if count:
            shown = len(item.seen.rejected)
            first = f", the first {shown:,} of {count:,}" if count > shown else ""
            st.markdown(f"**Rows that would be rejected**{first}")
            outcome.rejected_rows(pd.DataFrame(item.seen.rejected), name=f"would-be-rejected-{key}")


def _row(item: Pending) -> None:
    """One waiting file."""
    what, workload, gpu = st.columns([5, 4, 3], vertical_alignment="center")
    key = item.file.sha256[:16]
    with what:
        st.markdown(f"**{markdown.plain(item.file.name)}**  \n:small[{_described(item)}]")
    mappable = item.seen.columns if item.duplicate is None else []
    if mappable and editor(item.file.path, item.file.name, mappable, key):
        _look_again()
    if item.seen.error is not None or item.duplicate is not None:
        return
    with workload:
        if item.seen.asks_workload:
            st.text_input(
                "Workload",
                value=item.seen.workload or "",
                key=f"workload-{key}",
                help="Guessed from the file name. Several files with one name make one profile."
                if item.seen.workload
                else "The job that ran meanwhile, if it was one; else leave it blank.",
            )
    with gpu:
        if item.seen.asks_gpu:
            options = list(
                dict.fromkeys([*([item.seen.gpu] if item.seen.gpu else []), *item.seen.gpus, *gpus.load().index])
            )
            st.selectbox(
                "GPU",
                options,
                index=0 if item.seen.gpu or len(item.seen.gpus) == 1 else None,
                key=f"gpu-{key}",
                accept_new_options=True,
                placeholder="Which GPU?",
                help="The file names the compute capability at most; the first ones in the list have it.",
            )
    _reading(item, key)


def _look_again() -> None:
    """Read what waits again, now that a mapping may fit it."""
    mappings, again = saved(database()), [item for item in state().pending if item.seen.columns]
    with reader_for([item.file.path for item in again], spool=database().spool) as files:
        for item in again:
            item.seen = files.preview(item.file.path, item.file.name, mappings)
    st.rerun()


def _described(item: Pending) -> str:
    """Say what a file was recognised as."""
    if item.seen.error is not None:
        return f":red[:material/error: {markdown.sentence(item.seen.error)}]"
    if item.duplicate is not None:
        return f":gray[:material/content_copy:] The same bytes are loaded already, as source {item.duplicate}."
    parts = [markdown.plain(item.seen.title)]
    if item.seen.rows is not None:
        parts.append(frame.count(item.seen.rows, "row"))
    if item.seen.rejected_count:
        parts.append(f"{frame.count(item.seen.rejected_count, 'row')} would be rejected")
    if item.seen.launches:
        parts.append(frame.count(item.seen.launches, "launch", "launches"))
    if item.seen.files > 1:
        parts.append(f"the first of {item.seen.files} files in the archive")
    return f":gray[{' · '.join(parts)}]"


@access.editing
def _submit(current: State, dataset: str) -> None:
    """Queue the loading of everything that waits."""
    work: list[tuple[Spooled, Hints]] = []
    for item in current.pending:
        key = item.file.sha256[:16]
        named = (st.session_state.get(f"workload-{key}") or "").strip() or None
        hints = Hints(
            workload=named,
            workload_from="after the file, without the GPU in its name" if named == item.seen.workload else "by you",
            gpu=gpus.canonical(chosen) if (chosen := st.session_state.get(f"gpu-{key}")) else None,
            dataset=dataset,
        )
        work.append((item.file, hints))
    opened = database()
    names = [file.name for file, _ in work]
    current.job = jobs().submit(
        KIND, {"dataset": dataset, "files": names}, lambda progress: load_all(opened, work, progress), lane="load"
    )
    current.pending.clear()
    current.undone = False
    st.rerun()


def load_all(opened: Database, work: list[tuple[Spooled, Hints]], progress: Progress) -> dict[str, Any]:
    """Load files one after the other; a cancel keeps what is loaded and leaves the rest."""
    reports: list[dict[str, Any]] = []
    done = 0

    def reading() -> None:
        progress(done / len(work), f"reading {work[done][0].name}")

    cancelled = False
    try:
        with reader_for([file.path for file, _ in work], spool=opened.spool, wanted=reading) as files:
            for file, hints in work:
                reading()
                read = import_all(opened, file.path, name=file.name, hints=hints, reader=files.read)
                reports.extend(report.model_dump(mode="json") for report in read)
                done += 1
    except CancelledError:
        cancelled = True
    finally:
        for file, _ in work:
            file.discard()
    left = [file.name for file, _ in work[done:]]
    return {"dataset": work[0][1].dataset if work else "own", "reports": reports, "cancelled": cancelled, "left": left}


def templates() -> None:
    """Offer the own tables to fill in, with what each column means."""
    st.subheader("No file yet? Fill in a table", anchor=False)
    for template in TEMPLATES:
        with st.expander(template.title, icon=":material/table:"):
            st.download_button(
                "Download the template",
                data=template.csv(),
                file_name=template.file_name,
                mime="text/csv",
                icon=":material/download:",
                key=f"template-{template.name}",
                on_click="ignore",
            )
            st.markdown(column_table(template.columns))


@access.editing
def undo(reports: list[dict[str, Any]]) -> int:
    """Take out again what an upload loaded; return the number of sources."""
    loaded = [int(report["source_id"]) for report in reports if report["status"] == "loaded"]
    for source_id in loaded:
        remove_source(database(), source_id)
    return len(loaded)


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
