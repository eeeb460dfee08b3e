"""What the matrix page shows, as its controls say: GPU, layer, colour, order and grouping, all in the address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from analysis.charts.slowdown_heatmap import MOST
from analysis.errors import ModelRefusedError
from analysis.interference.families import family_names
from analysis.interference.layers import PREDICTABLE, Predicted
from analysis.interference.matrix import SlowdownMatrix, slowdown_matrix
from analysis.interference.order import ORDERS, order
from analysis.predict.advise.square import PredictedPairs, predict_pairs
from analysis.predict.models.manifest import Manifest
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.parts.question import model_of, trained
from analysis.ui.shell.resources import cached, database

SIDE_BY_SIDE = "Side by side"
MEASURED, FILLED, PREDICTED, DIFFERENCE = "Measured", "Gaps predicted", "Predicted", "Difference"
VALUES = {
    "slowdown": "Slowdown",
    "together": "Time together",
    "stp": "STP",
    "antt": "ANTT",
    "fairness": "Fairness",
    "jain": "Jain's index",
    "worst": "Worst of the two",
    "p99": "p99 inflation",
}
_ORDER_WORDS = {
    "name": "by name",
    "family": "by family",
    "sensitivity": "most sensitive first",
    "pressure": "most aggressive first",
    "cluster": "alike side by side",
}
#: What the rows can stand for: the word of the control, and the noun of a sentence.
GROUPINGS = {
    "workload": ("Workloads", "workloads"),
    "family": ("Families", "families"),
    "phase": ("Phases", "phases"),
    "batch_size": ("Batch sizes", "batch sizes"),
    "precision": ("Precisions", "precisions"),
}
_KEEP: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}


@dataclass(frozen=True)
class View:
    """What is asked for.

    Attributes
    ----------
    gpus : tuple of str
        One, or all of them for small multiples.
    layer, value, how, group : str
        Of the names above; `group` is a key of `GROUPINGS`.
    model : Manifest, optional
        Whose predictions, for all layers but the measured one.
    """

    gpus: tuple[str, ...]
    layer: str
    value: str
    how: str
    group: str
    model: Manifest | None = None


def measured_gpus(name: str, chosen: Filter) -> list[str]:
    """Return the GPUs with co-runs, those with the most first, as far as the filter keeps them."""
    table = cached(coruns.gpus_and_mechanisms, database(), name)
    if chosen.mechanisms:
        table = table[table["mechanism"].isin(chosen.mechanisms)]
    ranked = table.groupby("gpu")["runs"].sum().sort_values(ascending=False, kind="stable")
    return [str(gpu) for gpu in ranked.index if not chosen.gpus or gpu in chosen.gpus]


def controls(name: str, gpus: list[str], has_p99: bool, groupings: list[str]) -> View:
    """Ask for the view."""
    models = trained(name)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        view: str | None = gpus[0]
        if len(gpus) > 1:
            view = st.segmented_control(
                "GPU", [*gpus, SIDE_BY_SIDE], default=gpus[0], required=True, key="view", **_KEEP
            )
        layer: str | None = MEASURED
        if models and view != SIDE_BY_SIDE:
            layer = st.segmented_control(
                "Show", [MEASURED, FILLED, PREDICTED, DIFFERENCE], default=MEASURED, required=True, key="layer",
                help="Predicted cells carry a thin frame. Difference is predicted against measured, in percent.",
                **_KEEP,
            )  # fmt: skip
    asked = layer in (FILLED, PREDICTED, DIFFERENCE)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        value = "difference"
        if layer != DIFFERENCE:
            shown = [key for key in VALUES if key != "p99" or has_p99]
            shown = [key for key in shown if key in PREDICTABLE] if asked else shown
            value = st.selectbox("Colour", shown, format_func=VALUES.__getitem__, key="colour", width=180, **_KEEP)
        how = st.selectbox(
            "Order", list(ORDERS), format_func=lambda key: _ORDER_WORDS.get(key, key), key="order", width=200, **_KEEP
        )
        group = groupings[0]
        if len(groupings) > 1:
            group = st.selectbox(
                "Rows are", groupings, format_func=lambda key: GROUPINGS[key][0], key="group", width=160,
                help="Groups show the median over their workloads; a click opens them.", **_KEEP,
            )  # fmt: skip
        model = None
        if asked:
            with st.container(width=360):
                model = model_of(models)
    wanted = tuple(gpus) if view == SIDE_BY_SIDE else (str(view if view in gpus else gpus[0]),)
    return View(wanted, str(layer) if asked else MEASURED, str(value), str(how), str(group), model)


def groupings(matrix: SlowdownMatrix, known: pd.DataFrame) -> list[str]:
    """Return what the rows can stand for here; workloads only where they are few enough to draw."""
    found = [] if len(matrix.workloads) > MOST else ["workload"]
    for key in ("family", "phase", "batch_size", "precision"):
        count = len(set(group_names(matrix, key, known)))
        if 1 < count < len(matrix.workloads) and count <= MOST:
            found.append(key)
    return found or ["workload"]


def group_names(matrix: SlowdownMatrix, key: str, known: pd.DataFrame) -> list[str]:
    """Return the group of each workload of a matrix.

    Parameters
    ----------
    matrix : SlowdownMatrix
        The matrix.
    key : str
        A key of `GROUPINGS`.
    known : pd.DataFrame
        As `analysis.store.queries.sources.workloads` gives it.
    """
    if key == "workload":
        return list(matrix.workloads)
    if key == "family":
        return family_names(matrix)
    by_name = known.drop_duplicates("workload").set_index("workload")[key]
    values = by_name.reindex(list(matrix.workloads))
    if key == "batch_size":
        return ["not said" if np.isnan(value) else str(int(value)) for value in values.astype(float)]
    return [value if isinstance(value, str) and value else "not said" for value in values]


def load(name: str, gpu: str, chosen: Filter) -> SlowdownMatrix:
    """Return one matrix, restricted to the chosen workloads."""
    mechanism = chosen.mechanisms[0] if chosen.mechanisms else None
    found = cached(slowdown_matrix, database(), name, gpu, mechanism)
    if chosen.workloads or chosen.families or chosen.phases or chosen.batch_sizes or chosen.precisions:
        kept = set(cached(sources.workloads, database(), chosen)["workload"])
        found = found.reordered([place for place, job in enumerate(found.workloads) if job in kept])
    return found


def ordered(found: SlowdownMatrix, how: str) -> SlowdownMatrix:
    """Return the matrix in an order."""
    return found.reordered(order(found, how))


def predictions(found: SlowdownMatrix, view: View) -> PredictedPairs | None:
    """Return the model's predictions for a matrix, where the view asks for them and the model can be read."""
    if view.model is None or view.layer == MEASURED:
        return None
    return cached(_predictions, database(), view.model.model_id, found.gpu, found.mechanism, found.workloads)


def _predictions(
    opened: Database, model_id: str, gpu: str, mechanism: str, workloads: tuple[str, ...]
) -> PredictedPairs | None:
    try:
        return predict_pairs(opened, model_id, gpu, mechanism, workloads)
    except ModelRefusedError:
        return None


def error(found: SlowdownMatrix, predicted: Predicted) -> float:
    """Return the median absolute difference of predicted and measured cells in percent, NaN without any."""
    both = ~np.isnan(found.slowdown) & ~np.isnan(predicted.slowdown)
    if not both.any():
        return float("nan")
    return float(100 * np.median(np.abs(predicted.slowdown[both] / found.slowdown[both] - 1)))
