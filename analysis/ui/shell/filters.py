"""Filters in the sidebar: they stand in the address, stay from page to page, and say themselves as a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from analysis.errors import UsageError
from analysis.interference.decision import check_limit, usual_limit
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.shell import sample
from analysis.ui.shell.resources import cached, database

#: Label and help of each filter; the name is also the parameter in the address.
_LABELS = {
    "dataset": ("Data set", "Data sets are never pooled: a page shows one at a time."),
    "gpu": ("GPU", "Nothing chosen means all."),
    "mechanism": ("Mechanism", "How the jobs share the GPU. Nothing chosen means all."),
    "family": ("Model family", "Nothing chosen means all."),
    "workload": ("Workload", "Nothing chosen means all."),
    "phase": ("Phase", "Training, fine-tuning, prefill, decode. Nothing chosen means all."),
    "batch": ("Batch size", "Nothing chosen means all."),
    "precision": ("Precision", "Nothing chosen means all."),
    "limit": ("Limit: largest slowdown of each, x", "Every verdict is at this limit, on every page."),
    "source": ("Source", "The imported files, newest first. Nothing chosen means all."),
}

_FIELDS = {
    "gpu": "gpus",
    "mechanism": "mechanisms",
    "family": "families",
    "workload": "workloads",
    "phase": "phases",
    "batch": "batch_sizes",
    "precision": "precisions",
}


def sidebar(fields: tuple[str, ...]) -> None:
    """Draw the filters of a page; one without a choice to make is left out."""
    names = dataset_names()
    if not fields or not names:
        return
    with st.sidebar:
        if "limit" in fields:
            st.number_input(
                _LABELS["limit"][0], min_value=1.0, max_value=10.0, value=usual_limit(), step=0.05, key="limit",
                help=_LABELS["limit"][1], bind="query-params", persist_state="session",
            )  # fmt: skip
        if "dataset" in fields:
            simulated = _simulated()
            labels = {name: f"{name} (simulated)" if name in simulated else name for name in names}
            address = st.query_params.get("dataset")
            if address in simulated:  # the address holds what the list shows, links the name
                st.session_state["dataset"] = st.query_params.pop("dataset")
            elif address not in labels.values():
                st.session_state["dataset"] = dataset()
            st.selectbox(
                _LABELS["dataset"][0],
                names,
                # A value that equals the widget's default is dropped from the address, and which data set comes first
                # differs from one database to the next: without a default the address always says it.
                index=None,
                required=True,
                format_func=lambda name: labels.get(name, name),
                key="dataset",
                help=_LABELS["dataset"][1],
                bind="query-params",
                persist_state="session",
            )
        choices = options(dataset() or names[0])
        for field in fields:
            values = choices.get(field, [])
            if field not in ("dataset", "limit") and len(values) > 1:
                label, text = _LABELS[field]
                st.multiselect(
                    label,
                    values,
                    key=field,
                    help=text,
                    placeholder="All",
                    bind="query-params",
                    persist_state="session",
                )
        sample.switch()


def dataset() -> str | None:
    """Return the chosen data set: the one in the sidebar, else the first; None when nothing is loaded."""
    names = dataset_names()
    chosen = st.session_state.get("dataset")
    return chosen if chosen in names else names[0] if names else None


def limit() -> float:
    """Return the limit that every verdict is at: that of the sidebar or the address, else that of the settings."""
    held = st.session_state.get("limit", st.query_params.get("limit"))
    try:
        return check_limit(float(held)) if held is not None else usual_limit()
    except (TypeError, ValueError, UsageError):
        return usual_limit()


def chosen(*fields: str) -> Filter:
    """Return the filter that the sidebar holds.

    Parameters
    ----------
    *fields : str
        Filters that the page heeds, by the names of `analysis.ui.shell.navigation`; those of other pages stay out.
    """
    name = dataset()
    result = Filter(datasets=(name,)) if name and "dataset" in fields else Filter()
    for field in fields:
        values = st.session_state.get(field) or []
        if field in _FIELDS and values:
            kept = tuple(int(value) for value in values) if field == "batch" else tuple(str(value) for value in values)
            result = result.with_(**{_FIELDS[field]: kept})
        if field == "source" and values:
            numbers = {text: number for number, text in _files(name).items()}
            files = [str(value) for value in values if str(value) in numbers]
            result = result.with_(sources=tuple(numbers[text] for text in files), source_names=tuple(files))
    return result


def dataset_names() -> list[str]:
    """Return the loaded data sets, measured ones first, without the sample while it is hidden."""
    frame = cached(sources.datasets, database())
    return sample.visible([str(name) for name in frame["name"]])


def options(name: str) -> dict[str, list[str]]:
    """Return what each filter can be set to within a data set."""
    chosen_set = Filter(datasets=(name,))
    frame = cached(sources.workloads, database(), chosen_set)
    runs = cached(coruns.gpus_and_mechanisms, database(), name)
    gpus = {str(gpu) for row in frame["gpus"] if row is not None for gpu in row if gpu}
    return {
        "gpu": sorted(gpus),
        "mechanism": _distinct(runs["mechanism"]),
        "family": _distinct(frame["family"]),
        "workload": _distinct(frame["workload"]),
        "phase": _distinct(frame["phase"]),
        "batch": [str(size) for size in sorted({int(size) for size in frame["batch_size"].dropna()})],
        "precision": _distinct(frame["precision"]),
        "source": list(_files(name).values()),
    }


def pick(
    label: str, values: list[str], *, key: str, show: Callable[[str], str] = str, hint: str | None = None
) -> str | None:
    """Ask for one value, in the page and in its address; a single value needs no question."""
    if len(values) < 2:
        return values[0] if values else None
    picked: str | None = st.selectbox(
        label, values, key=key, format_func=show, help=hint, bind="query-params", persist_state="session"
    )
    return picked


def _files(name: str | None) -> dict[int, str]:
    """Return what the files of a data set are called, with their numbers where two have one name."""
    if name is None:
        return {}
    frame = cached(sources.sources, database(), Filter(datasets=(name,)))
    twice = frame["file_name"].duplicated(keep=False)
    return {
        int(number): f"{file} (source {number})" if again else str(file)
        for number, file, again in zip(frame["source_id"], frame["file_name"], twice, strict=True)
    }


def _simulated() -> set[str]:
    frame = cached(sources.datasets, database())
    return {str(name) for name in frame.loc[frame["simulated"].astype(bool), "name"]}


def _distinct(column: pd.Series) -> list[str]:
    return sorted({str(value) for value in column.dropna() if value != ""})
