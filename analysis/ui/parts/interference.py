"""The slowdown matrix on a page: a picture to click, a table to walk by keyboard, one chosen cell for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from analysis.charts.scale import SCALES
from analysis.charts.slowdown_heatmap import MOST, place_in, place_of, slowdown_heatmap, slowdown_multiples
from analysis.charts.theme import alt_text
from analysis.errors import ModelRefusedError
from analysis.interference.layers import PREDICTABLE, Predicted, numbers_of, only_predicted
from analysis.interference.matrix import DID_NOT_RUN, FLAGGED, MEASURED, NOT_MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.interference.matrix_order import ORDERS, by_group, family_names, order
from analysis.interference.metrics import together_per_100
from analysis.numbers import capital, significant, slowdown
from analysis.predict.advise.square import PredictedPairs, predict_pairs
from analysis.predict.models.manifest import Manifest
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.parts.question import model_of, trained
from analysis.ui.shell import frame
from analysis.ui.shell.columns import configured
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import cached, database, theme

#: Keys, and parameters in the address, of the chosen cell: who is slowed, by whom, on which GPU.
SLOWED, BESIDE, AT = "slowed", "beside", "at"
CELL = (SLOWED, BESIDE)
#: The same of the chosen groups, where rows and columns are groups of workloads.
GROUPS = ("rows", "columns")

_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}


def show(
    matrix: SlowdownMatrix,
    figure: go.Figure,
    *,
    alt: str,
    values: str = "slowdown",
    predicted: Predicted | None = None,
    keys: tuple[str, str] = CELL,
) -> None:
    """Draw one matrix; a click or a selected table cell becomes the chosen cell.

    Parameters
    ----------
    matrix : SlowdownMatrix
        Its values, in the order of the figure.
    figure : go.Figure
        Drawn by `analysis.charts.slowdown_heatmap`, with selectable markers over its cells.
    alt : str
        What the chart shows.
    values, predicted
        What the figure shows, for the table.
    keys : tuple of str
        Where the chosen row and column are kept: `CELL` or `GROUPS`.
    """
    key = f"matrix-{keys[0]}-{matrix.gpu}"
    st.plotly_chart(
        figure, theme=None, key=key, alt=alt, selection_mode="points", config=_CONFIG,
        on_select=lambda: _from_chart(key, matrix, keys),
    )  # fmt: skip
    table([matrix], values=values, predicted=predicted, keys=keys)


def show_multiples(matrices: Sequence[SlowdownMatrix], figure: go.Figure, *, alt: str, values: str) -> None:
    """Draw several matrices on one scale, all of them to be clicked and walked."""
    st.plotly_chart(
        figure, theme=None, key="multiples", alt=alt, selection_mode="points", config=_CONFIG,
        on_select=lambda: _from_multiples("multiples", matrices),
    )  # fmt: skip
    table(matrices, values=values)


def table(
    matrices: Sequence[SlowdownMatrix],
    *,
    values: str = "slowdown",
    predicted: Predicted | None = None,
    keys: tuple[str, str] = CELL,
) -> None:
    """Show the matrices as tables in which the arrow keys move and Enter or Space chooses a cell."""
    with st.expander("The same as a table, to walk with the keyboard", icon=":material/table_rows:"):
        st.caption(
            f"{capital(SCALES[values].title)}. Rows are slowed, columns slow them. Arrow keys move, Enter or Space "
            "chooses a cell."
        )
        for matrix in matrices:
            if len(matrices) > 1:
                st.markdown(f"**{plain(matrix.gpu)}**")
            _walkable(matrix, values, predicted, keys)
            frame.download(
                long(matrix, predicted),
                name=f"slowdown-{matrix.dataset}-{matrix.gpu}{'' if keys == CELL else '-groups'}",
            )


def _walkable(matrix: SlowdownMatrix, values: str, predicted: Predicted | None, keys: tuple[str, str]) -> None:
    key = frame.rows_key(f"table-{keys[0]}-{matrix.gpu}", matrix.workloads)
    st.dataframe(
        wide(matrix, values, predicted),
        key=key,
        on_select=lambda: _from_table(key, matrix, keys),
        selection_mode="single-cell",
        alt=f"Slowdown matrix on {matrix.gpu}",
        placeholder="–",
        column_config={"_index": configured("workload/slowed", workload={"pinned": True})["workload"]},
    )


def wide(matrix: SlowdownMatrix, values: str = "slowdown", predicted: Predicted | None = None) -> pd.DataFrame:
    """Write the matrix as text, rows the slowed, columns the aggressor.

    A cell reads ``1.34``, ``1.34 flagged``, ``1.34, 2 failed``, ``1.34 predicted``, ``did not run``, or ``·`` for not
    measured.
    """
    shown = numbers_of(matrix, values, predicted)
    text = np.vectorize(lambda value: "" if np.isnan(value) else f"{value:.2f}", otypes=[object])(shown)
    measured = matrix.state != NOT_MEASURED
    empty = np.isnan(shown) if predicted is not None else ~measured
    text = np.where(~measured, np.where(empty, "·", text + " predicted"), text)
    mixed = (matrix.failed > 0) & (matrix.runs > 0)
    text = np.where(mixed, text + ", " + matrix.failed.astype(str).astype(object) + " failed", text)
    text = np.where(matrix.state == FLAGGED, text + " flagged", text)
    text = np.where(matrix.state == DID_NOT_RUN, "did not run", text)
    names = list(matrix.workloads)
    return pd.DataFrame(text, index=pd.Index(names, name="slowed"), columns=names)


def long(matrix: SlowdownMatrix, predicted: Predicted | None = None) -> pd.DataFrame:
    """Return the matrix as a table for a file, one row a cell, predictions beside the measurements."""
    rows = matrix.table()
    if predicted is not None:
        for name in ("slowdown", "low", "high"):
            rows[f"predicted_{name}"] = getattr(predicted, name).ravel()
    return rows


def chosen(matrices: Mapping[str, SlowdownMatrix]) -> tuple[str, str, str] | None:
    """Return the chosen cell as GPU, slowed and beside; None when nothing, or nothing that exists, is chosen."""
    slowed, beside = st.session_state.get(SLOWED), st.session_state.get(BESIDE)
    gpu = str(st.session_state.get(AT))
    if gpu not in matrices:
        gpu = next(iter(matrices))
    names = matrices[gpu].workloads
    return (gpu, str(slowed), str(beside)) if slowed in names and beside in names else None


def pickers(matrices: Mapping[str, SlowdownMatrix]) -> tuple[str, str, str] | None:
    """Ask for a cell by name, which also gives the choice its address.

    Returns
    -------
    tuple of str, or None
        GPU, slowed and beside.
    """
    names = sorted({name for matrix in matrices.values() for name in matrix.workloads})
    columns = st.columns([3, 3, 2] if len(matrices) > 1 else [1, 1])
    _pick(columns[0], "Who is slowed", names, SLOWED, "Choose a job")
    _pick(columns[1], "By whom", names, BESIDE, "Choose a job")
    if len(matrices) > 1:
        columns[2].selectbox("On", list(matrices), key=AT, bind="query-params", persist_state="session")
    return chosen(matrices)


def group_pickers(groups: Sequence[str], noun: str) -> tuple[str, str] | None:
    """Ask which two groups to open; None until both are chosen."""
    columns = st.columns(2)
    _pick(columns[0], f"Open these {noun}", groups, GROUPS[0], "Choose one")
    _pick(columns[1], "Beside these", groups, GROUPS[1], "Choose one")
    rows, beside = (st.session_state.get(key) for key in GROUPS)
    return (str(rows), str(beside)) if rows in groups and beside in groups else None


def _pick(place: Any, label: str, names: Sequence[str], key: str, hint: str) -> None:
    place.selectbox(label, names, key=key, placeholder=hint, index=None, bind="query-params", persist_state="session")


def _from_chart(key: str, matrix: SlowdownMatrix, keys: tuple[str, str] = CELL) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points:
        _choose(matrix, *place_of(matrix, points[0]["customdata"]), keys)


def _from_multiples(key: str, matrices: Sequence[SlowdownMatrix]) -> None:
    points = st.session_state[key]["selection"]["points"]
    if points:
        number, slowed, beside = place_in(matrices, points[0]["customdata"])
        _choose(matrices[number], slowed, beside, CELL)


def _from_table(key: str, matrix: SlowdownMatrix, keys: tuple[str, str] = CELL) -> None:
    cells = st.session_state[key]["selection"]["cells"]
    if cells:
        row, column = cells[0]
        if column in matrix.workloads:
            _choose(matrix, matrix.workloads[row], str(column), keys)


def _choose(matrix: SlowdownMatrix, slowed: str, beside: str, keys: tuple[str, str]) -> None:
    st.session_state[keys[0]], st.session_state[keys[1]] = slowed, beside
    if keys == CELL:
        st.session_state[AT] = matrix.gpu


SIDE_BY_SIDE = "Side by side"
AS_MEASURED, FILLED, PREDICTED, DIFFERENCE = "Measured", "Gaps predicted", "Predicted", "Difference"
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
        layer: str | None = AS_MEASURED
        if models and view != SIDE_BY_SIDE:
            layer = st.segmented_control(
                "Show", [AS_MEASURED, FILLED, PREDICTED, DIFFERENCE], default=AS_MEASURED, required=True, key="layer",
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
    return View(wanted, str(layer) if asked else AS_MEASURED, str(value), str(how), str(group), model)


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
    if view.model is None or view.layer == AS_MEASURED:
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


def answer_of(found: Sequence[SlowdownMatrix], view: View) -> str:
    """Say what sharing costs on the one GPU shown, or on each of several, and where it costs most."""
    if len(found) == 1:
        return answer(found[0], view)
    costs = []
    for one in found:
        values = np.where(one.state == MEASURED, one.slowdown, np.nan)
        if np.isfinite(values).any():
            costs.append(f"**{slowdown(float(np.nanmedian(values)))}** on {plain(one.gpu)}")
    if not costs:
        return "There is no sound co-run on any GPU in this choice."
    listed = ", ".join(costs)
    return f"A job beside another takes, of its time alone, at the median {listed}. Choose one GPU for its pairs."


def answer(found: SlowdownMatrix, view: View) -> str:
    """Say what sharing costs here, at the median and at worst, and which pair gains most; flagged cells don't count."""
    sound = found.state == MEASURED
    values = np.where(sound, found.slowdown, np.nan)
    if np.isnan(values).all():
        return f"There is no sound co-run on {plain(found.gpu)} in this choice."
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    text = (
        f"On **{plain(found.gpu)}**{f' under {plain(found.mechanism)}' if found.mechanism else ''} a job takes "
        f"**{slowdown(float(np.nanmedian(values)))}** as long beside another as alone, at the median. Hurt most is "
        f"{plain(found.workloads[row])} beside {plain(found.workloads[column])}: "
        f"**{slowdown(float(values[row, column]))}**."
    )
    stp = np.where(found.sound, found.stp, np.nan)
    if np.isfinite(stp).any():
        row, column = np.unravel_index(np.nanargmax(stp), stp.shape)
        first, second = plain(found.workloads[row]), plain(found.workloads[column])
        both = f"two of {first}" if row == column else f"{first} and {second}"
        minutes = float(together_per_100(stp[row, column]))
        text += f" Best together are {both}: **{minutes:.0f} min** for what takes 100 one after the other."
    predicted = predictions(found, view)
    if predicted is not None:
        off = error(found, predicted.values)
        text += f" The model's predictions are off by **{significant(off)} %** of the cells that ran, at the median"
        text += " (it has learnt from them)." if predicted.model.dataset == found.dataset else "."
    return text


def draw(found: Mapping[str, SlowdownMatrix], view: View) -> None:
    """Draw one matrix of workloads, or several on one scale, to click and to walk."""
    sizes = [len(one.workloads) for one in found.values()]
    if not all(sizes):
        st.info("No workload of this choice was co-run here.")
        return
    if max(sizes) > MOST:
        st.info(
            f"More than {MOST} workloads are too many for one picture: choose others, or fewer of them in the sidebar."
        )
        return
    shown = {gpu: ordered(one, view.how) for gpu, one in found.items()}
    if len(shown) > 1:
        parts = list(shown.values())
        figure = slowdown_multiples(parts, values=view.value, theme=theme())
        show_multiples(parts, figure, alt=alt_text(figure), values=view.value)
        return
    one = next(iter(shown.values()))
    picked = chosen(shown)
    predicted = predictions(one, view)
    if predicted is None and view.layer != AS_MEASURED:
        st.warning(
            "This version of StallScope can't read the model, so only what ran is shown. Train it again.",
            icon=":material/warning:",
        )
    guess = predicted.values if predicted else None
    value = view.value if guess or view.value != "difference" else "slowdown"
    drawn = only_predicted(one, guess) if guess and view.layer == PREDICTED else one
    # Outlining the chosen cell means sending the picture again, which takes long where it is large.
    outline = picked[1:] if picked and len(one.workloads) <= 60 else None
    look = theme()
    if len(drawn.workloads) <= 60:
        figure = slowdown_heatmap(drawn, values=value, predicted=guess, selected=outline, theme=look)
    else:
        opened = database()
        told = (opened.path, opened.version, drawn.dataset, drawn.gpu, drawn.mechanism, drawn.workloads, view, value)
        figure = _large(repr(told), look, lambda: slowdown_heatmap(drawn, values=value, predicted=guess, theme=look))
    show(drawn, figure, alt=alt_text(figure), values=value, predicted=guess)
    if predicted is not None:
        st.caption(sentence(" ".join(predicted.notes)))


@st.cache_resource(show_spinner=False, max_entries=8)
def _large(key: str, look: str, _draw: Callable[[], go.Figure]) -> go.Figure:
    """Draw a large picture once: choosing a cell must not cost another half second."""
    return _draw()


def draw_groups(
    found: Mapping[str, SlowdownMatrix],
    names: Mapping[str, Sequence[str]],
    view: View,
    picked: tuple[str, str] | None,
) -> None:
    """Draw matrices of groups, the medians of their workloads."""
    noun = GROUPINGS[view.group][1]
    if view.layer != AS_MEASURED:
        st.caption("Groups show what ran; open two of them to see predictions.")
    value = "slowdown" if view.value == "difference" else view.value
    for gpu, one in found.items():
        grouped = by_group(one, names[gpu], noun)
        st.caption(grouped.notes[-1])
        if len(found) > 1:
            frame.subheading(plain(gpu))
        if len(grouped.workloads) > MOST:
            st.info(f"Even {len(grouped.workloads)} {noun} are too many for one picture: choose some in the sidebar.")
            continue
        figure = slowdown_heatmap(grouped, values=value, selected=picked, theme=theme())
        show(grouped, figure, alt=alt_text(figure), values=value, keys=GROUPS)
