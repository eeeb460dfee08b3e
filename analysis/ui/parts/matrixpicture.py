"""The picture of the matrix page, and its answer in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from analysis.charts.slowdown_heatmap import MOST, slowdown_heatmap, slowdown_multiples
from analysis.charts.theme import alt_text
from analysis.interference.families import by_group
from analysis.interference.layers import only_predicted
from analysis.interference.matrix import MEASURED, SlowdownMatrix
from analysis.interference.metrics import together_per_100
from analysis.numbers import significant, slowdown
from analysis.ui.parts import matrix, matrixview
from analysis.ui.shell import frame
from analysis.ui.shell.markdown import plain, sentence
from analysis.ui.shell.resources import database, theme


def answer_of(found: Sequence[SlowdownMatrix], view: matrixview.View) -> str:
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


def answer(found: SlowdownMatrix, view: matrixview.View) -> str:
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
    predicted = matrixview.predictions(found, view)
    if predicted is not None:
        off = matrixview.error(found, predicted.values)
        text += f" The model's predictions are off by **{significant(off)} %** of the cells that ran, at the median"
        text += " (it has learnt from them)." if predicted.model.dataset == found.dataset else "."
    return text


def draw(found: Mapping[str, SlowdownMatrix], view: matrixview.View) -> None:
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
    shown = {gpu: matrixview.ordered(one, view.how) for gpu, one in found.items()}
    if len(shown) > 1:
        parts = list(shown.values())
        figure = slowdown_multiples(parts, values=view.value, theme=theme())
        matrix.show_multiples(parts, figure, alt=alt_text(figure), values=view.value)
        return
    one = next(iter(shown.values()))
    picked = matrix.chosen(shown)
    predicted = matrixview.predictions(one, view)
    if predicted is None and view.layer != matrixview.MEASURED:
        st.warning(
            "This version of StallScope can't read the model, so only what ran is shown. Train it again.",
            icon=":material/warning:",
        )
    guess = predicted.values if predicted else None
    value = view.value if guess or view.value != "difference" else "slowdown"
    drawn = only_predicted(one, guess) if guess and view.layer == matrixview.PREDICTED else one
    # Outlining the chosen cell means sending the picture again, which takes long where it is large.
    outline = picked[1:] if picked and len(one.workloads) <= 60 else None
    look = theme()
    if len(drawn.workloads) <= 60:
        figure = slowdown_heatmap(drawn, values=value, predicted=guess, selected=outline, theme=look)
    else:
        opened = database()
        told = (opened.path, opened.version, drawn.dataset, drawn.gpu, drawn.mechanism, drawn.workloads, view, value)
        figure = _large(repr(told), look, lambda: slowdown_heatmap(drawn, values=value, predicted=guess, theme=look))
    matrix.show(drawn, figure, alt=alt_text(figure), values=value, predicted=guess)
    if predicted is not None:
        st.caption(sentence(" ".join(predicted.notes)))


@st.cache_resource(show_spinner=False, max_entries=8)
def _large(key: str, look: str, _draw: Callable[[], go.Figure]) -> go.Figure:
    """Draw a large picture once: choosing a cell must not cost another half second."""
    return _draw()


def draw_groups(
    found: Mapping[str, SlowdownMatrix],
    names: Mapping[str, Sequence[str]],
    view: matrixview.View,
    picked: tuple[str, str] | None,
) -> None:
    """Draw matrices of groups, the medians of their workloads."""
    noun = matrixview.GROUPINGS[view.group][1]
    if view.layer != matrixview.MEASURED:
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
        matrix.show(grouped, figure, alt=alt_text(figure), values=value, keys=matrix.GROUPS)
