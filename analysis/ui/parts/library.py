"""Tables of what the database holds, with search, provenance, renaming and removal."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import streamlit as st

from analysis.ingest.account import TOLD, account
from analysis.store.filters import Filter
from analysis.store.loader import remove_source
from analysis.store.queries import coruns, sources
from analysis.ui.parts import outcome, upload
from analysis.ui.shell import access, frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database
from analysis.ui.shell.search import search

SOURCE_COLUMNS = (
    "source_id", "file_name", "format", "era", "rows_read", "rows_loaded", "rows_set_aside", "rows_rejected",
    "simulated", "loaded_at",
)  # fmt: skip

_SOURCE_CONFIG: dict[str, Any] = configured(
    "source_id", "file_name", "format", "era", "rows_read", "rows_loaded", "rows_set_aside", "rows_rejected",
    "simulated", "loaded_at",
)  # fmt: skip


def show_sources(dataset: str) -> None:
    """List the sources; a chosen one opens into its provenance and can be removed."""
    table = cached(sources.sources, database(), Filter(datasets=(dataset,)))
    # What was set aside is no part of any figure, so it isn't shown as loaded.
    table = table.assign(rows_loaded=table["rows_loaded"] - table["rows_set_aside"])
    found = search(table, ("file_name", "format", "era"), "search-sources").reset_index(drop=True)
    st.caption("Choose rows to see where they come from, or to remove them.")
    event = st.dataframe(
        found[list(SOURCE_COLUMNS)],
        hide_index=True,
        column_config=_SOURCE_CONFIG,
        on_select="rerun",
        selection_mode="multi-row",
        key=frame.rows_key("sources", found["source_id"]),
        placeholder="–",
        alt="Sources",
    )
    frame.download(found.drop(columns=["report", "set_aside"]), name="sources")
    rows = [row for row in event["selection"]["rows"] if row < len(found)]
    chosen = found.iloc[rows]
    if len(chosen):
        label = f"Remove {frame.count(len(chosen), 'source')}"
        if access.button(label, icon=":material/delete:", key="remove"):
            _confirm_removal(
                [int(number) for number in chosen["source_id"]], [str(name) for name in chosen["file_name"]]
            )
    for _, row in chosen.iterrows():
        _provenance(row)


@st.dialog("Remove from the database?")
def _confirm_removal(numbers: list[int], names: list[str]) -> None:
    st.markdown("  \n".join(markdown.plain(name) for name in names[:10]))
    if len(names) > 10:
        st.caption(f"and {len(names) - 10} more")
    st.caption("What these files brought goes, and nothing else. The files themselves can be loaded again.")
    if st.button("Remove", type="primary", icon=":material/delete:", key="remove-confirmed"):
        _remove(numbers)
        st.rerun()


@access.editing
def _remove(numbers: list[int]) -> None:
    for number in numbers:
        remove_source(database(), number)


def _provenance(row: pd.Series) -> None:
    """Where one source comes from and how it was read."""
    with st.expander(f"Where **{markdown.plain(row['file_name'])}** comes from", expanded=True):
        report = json.loads(row["report"] or "{}")
        aside = json.loads(row["set_aside"] or "{}")
        st.caption(
            f"{int(row['bytes']):,} bytes · SHA-256 {row['sha256']} · "
            f"importer {markdown.plain(row['importer_version'])} · "
            f"licence {markdown.plain(row['licence'] or 'not stated')}"
        )
        if row["citation"]:
            st.caption(markdown.sentence(str(row["citation"])))
        fields = ("format", "era", "rows_read", "rows_rejected")
        known = {name: row[name] for name in fields if pd.notna(row[name])}
        known["rows_loaded"] = row["rows_loaded"] + row["rows_set_aside"]
        known |= {"set_aside": aside, "gpus": sources.gpus_of(database(), int(row["source_id"])), "report": report}
        outcome.account_lines(account(known))
        for text in report.pop("warnings", []):
            st.markdown(f":orange[:material/warning:] {markdown.sentence(str(text), 600)}")
        details = {
            str(name): value for name, value in report.items() if value not in (None, "", [], {}) and name not in TOLD
        }
        if details:
            with st.expander("Details", type="compact"):
                st.json(details, expanded=1)
        if row["rows_rejected"]:
            st.markdown("**Rejected rows**")
            rejected = cached(sources.rejected_rows, database(), int(row["source_id"]))
            outcome.rejected_rows(rejected, name=f"rejected-{row['source_id']}")
        if aside:
            outcome.aside_rows(int(row["source_id"]))


def show_workloads(dataset: str) -> None:
    """List the workloads; a chosen one can be renamed."""
    table = cached(sources.workloads, database(), Filter(datasets=(dataset,))).drop(columns=["workload_id", "dataset"])
    found = search(table, ("workload", "family", "training_data", "precision", "phase"), "search-workloads")
    found = found.reset_index(drop=True)
    event = st.dataframe(
        found,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=frame.rows_key("workloads", found["workload"]),
        placeholder="–",
        alt="Workloads",
        column_config=configured(
            "workload",
            "model",
            "family",
            "training_data",
            "batch_size",
            "precision",
            "phase",
            "gpus",
            "profiles",
            "solos",
            "runs/coruns",
        ),
    )
    frame.download(found, name="workloads")
    rows = [row for row in event["selection"]["rows"] if row < len(found)]
    if rows:
        name = str(found.iloc[rows[0]]["workload"])
        with st.form("rename", width=560):
            st.markdown(f"Rename **{markdown.plain(name)}**")
            wanted = st.text_input("New name", value=name, help="The name of another workload makes the two one.")
            sent = st.form_submit_button("Rename", icon=":material/edit:", disabled=not access.may_edit())
            if sent and wanted.strip() and wanted.strip() != name:
                upload.apply(dataset, {name: wanted.strip()})
                st.rerun()


def show_runs(dataset: str) -> None:
    """List the co-runs, one row a member."""
    table = cached(coruns.members, database(), Filter(datasets=(dataset,)))
    columns = [
        "run_id", "external_id", "gpu", "mechanism", "k", "run_outcome", "workload", "outcome", "measure", "unit",
        "solo_value", "corun_value", "slowdown", "flags", "file_name", "line",
    ]  # fmt: skip
    found = search(table[columns], ("external_id", "gpu", "mechanism", "workload", "run_outcome"), "search-runs")
    if found.empty:
        st.info("No co-runs here.")
        return
    st.caption(f"{found['run_id'].nunique():,} runs, {len(found):,} members")
    frame.data(
        found,
        name="runs",
        columns=configured(
            "run_id",
            "external_id",
            "gpu",
            "mechanism",
            "k",
            "run_outcome",
            "workload",
            "outcome",
            "measure",
            "unit",
            "solo_value",
            "corun_value",
            "slowdown",
            "flags",
            "file_name",
            "line",
        ),
    )
