"""What became of each file of an upload: one row a file, that opens into its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from analysis.ingest.account import account
from analysis.ingest.contract.aside import what_aside
from analysis.store.queries import sources
from analysis.ui.shell import frame, markdown
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database

_ICONS = {"loaded": ":material/check_circle:", "duplicate": ":material/content_copy:", "rejected": ":material/error:"}
_COLOURS = {"loaded": "green", "duplicate": "gray", "rejected": "red"}


def sentence(reports: Sequence[Mapping[str, Any]]) -> str:
    """Say in a sentence what an upload brought."""
    loaded = [report for report in reports if report["status"] == "loaded"]
    others = {
        "already there": sum(report["status"] == "duplicate" for report in reports),
        "refused": sum(report["status"] == "rejected" for report in reports),
    }
    brought = [
        frame.count(total, one, many)
        for name, one, many in (
            ("launches", "launch", "launches"),
            ("kernels", "kernel", "kernels"),
            ("runs", "co-run", "co-runs"),
        )
        if (total := sum(int(report[name] or 0) for report in loaded))
    ]
    text = f"**{len(loaded)} of {frame.count(len(reports), 'file')} loaded**"
    if brought:
        text += ": " + ", ".join(brought)
    rest = [f"{number} {words}" for words, number in others.items() if number]
    return text + (f"; {' and '.join(rest)}" if rest else "") + "."


def rows(reports: Sequence[Mapping[str, Any]]) -> None:
    """Show one row a file."""
    for number, report in enumerate(reports):
        status = str(report["status"])
        label = f":{_COLOURS[status]}[{_ICONS[status]}] **{markdown.plain(report['file'])}** · {_short(report)}"
        with st.expander(label, expanded=status == "rejected", key=f"report-{number}-{report['file']}"):
            _report(report, number)


def _short(report: Mapping[str, Any]) -> str:
    if report["status"] == "rejected":
        return "refused"
    if report["status"] == "duplicate":
        return "the same bytes were loaded before"
    parts = [
        frame.count(int(report[name]), one, many)
        for name, one, many in (
            ("launches", "launch", "launches"),
            ("kernels", "kernel", "kernels"),
            ("runs", "co-run", "co-runs"),
        )
        if report.get(name)
    ]
    if report["rows_rejected"]:
        parts.append(f"{frame.count(int(report['rows_rejected']), 'row')} rejected")
    if report["warnings"]:
        parts.append(frame.count(len(report["warnings"]), "warning"))
    return ", ".join(parts) or frame.count(int(report["rows_loaded"]) - _aside(report), "row")


def _aside(report: Mapping[str, Any]) -> int:
    return sum(int(count) for count in (report.get("set_aside") or {}).values())


def _report(report: Mapping[str, Any], number: int) -> None:
    """Everything that is known of how one file was read."""
    if report["error"]:
        st.error(markdown.sentence(str(report["error"])), icon=":material/error:")
        return
    if report["status"] == "duplicate":
        st.markdown("Nothing was loaded a second time; the figures are those of the first upload.")
        return
    figures = {
        "Rows read": report["rows_read"],
        "Rows loaded": int(report["rows_loaded"] or 0) - _aside(report),
        "Set aside": _aside(report),
        "Rows rejected": report["rows_rejected"],
        "Launches": report["launches"],
        "Kernels": report["kernels"],
        "Stall reasons": len(report["stall_reasons"])
        if isinstance(report["stall_reasons"], list)
        else report["stall_reasons"],
        "Co-runs": report["runs"],
        "Members": report["members"],
    }
    shown = {label: value for label, value in figures.items() if value or label.startswith("Rows")}
    for column, (label, value) in zip(st.columns(len(shown)), shown.items(), strict=True):
        column.metric(label, f"{int(value or 0):,}")
    account_lines(account(report))
    for text in report["warnings"]:
        st.markdown(f":orange[:material/warning:] {markdown.sentence(str(text), 600)}")
    if report["rows_rejected"] and report["source_id"] is not None:
        rejected: pd.DataFrame = cached(sources.rejected_rows, database(), int(report["source_id"]))
        st.markdown("**Rejected rows**")
        rejected_rows(rejected, name=f"rejected-rows-{number}")
    if _aside(report) and report["source_id"] is not None:
        aside_rows(int(report["source_id"]))


def aside_rows(source_id: int) -> None:
    """Show the rows of a source that a rule of its format set aside, with the rule and the text, as a file too."""
    table: pd.DataFrame = cached(sources.set_aside_rows, database(), source_id)
    st.markdown("**Rows set aside**")
    if table.empty:
        st.caption("They were only counted when the file was loaded. Remove it and load it again to see them.")
        return
    told = {rule: what_aside(rule).partition(" (rule ")[0] for rule in table["rule"].unique()}
    frame.data(
        table.assign(why=table["rule"].map(told))[["line", "rule", "why", "text"]],
        name=f"set-aside-rows-{source_id}",
        columns=configured("line", "rule", "why/rows", "text"),
    )


def account_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Show how a file was read, one line a fact; see `analysis.ingest.account.account`."""
    st.markdown(
        "  \n".join(f"**{markdown.plain(label)}:** {markdown.sentence(text, 1200)}" for label, text in lines),
        width="stretch",
    )


def rejected_rows(table: pd.DataFrame, *, name: str) -> None:
    """Show rejected rows, with their place in the file, the reason and the text, and offer them as a file."""
    frame.data(
        table,
        name=name,
        columns=configured("line", "column", "reason/rejected", "text"),
    )
