"""Choosing what to measure next, for the page: the plan, kept while the data stay as they are, and its check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from analysis.errors import StallScopeError
from analysis.jobs.runner import Progress
from analysis.predict.advise.measure_next import Plan, measure_next
from analysis.predict.advise.next_check import check_choice, in_words
from analysis.ui.shell import access
from analysis.ui.shell.columns import configured
from analysis.ui.shell.resources import cached, database, jobs

COLUMNS: dict[str, Any] = configured(
    "rank",
    "workload",
    "co_workload",
    "verdict",
    "within_limit",
    "worst",
    "expected_error",
    "gain",
    "random_error",
    "command",
    "why",
)
SHOWN = (
    "rank", "co_workload", "verdict", "within_limit", "expected_error", "gain", "random_error", "why", "command",
)  # fmt: skip
CHECK_COLUMNS: dict[str, Any] = configured("workload/new", "pairs/measured", "none", "by_lot", "active/chosen")


@dataclass(frozen=True)
class Request:
    """What is asked: a workload, how many runs, and where."""

    dataset: str
    workload: str
    runs: int
    gpu: str
    mechanism: str
    limit: float

    def place(self) -> tuple[str, str, str, int]:
        """Return what a check depends on; the workload is not part of it."""
        return self.dataset, self.gpu, self.mechanism, self.runs


def plan(request: Request) -> Plan | str:
    """Return what to measure next, or why nothing can be said."""
    try:
        with st.spinner("Weighing the co-runs…"):
            return cached(
                measure_next, database(), request.dataset, request.workload, request.runs, request.gpu,
                request.mechanism, limit=request.limit,
            )  # fmt: skip
    except StallScopeError as error:
        return f"{error.what[:1].upper()}{error.what[1:]}. {error.cure}"


@access.editing
def submit_check(request: Request) -> str:
    """Queue the check of the choice; return the job."""
    opened = database()

    def work(progress: Progress) -> dict[str, Any]:
        found = check_choice(opened, request.dataset, request.gpu, request.mechanism, request.runs, progress)
        return {**found.to_json(), "sentence": in_words(found)}

    return jobs().submit("next-check", dict(vars(request)), work)


def check_table(result: dict[str, Any]) -> pd.DataFrame:
    """Return one row a workload."""
    return pd.DataFrame(result["rows"])
