"""The matrix chart shows every state, can be selected from, and stays light."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.charts.scale import SLOWDOWN
from analysis.charts.slowdown_heatmap import place_in, place_of, slowdown_heatmap, slowdown_multiples
from analysis.charts.theme import alt_text
from analysis.errors import UsageError
from analysis.interference.layers import Predicted, numbers_of, only_predicted

NAN = np.nan


def _trace(figure, symbol):
    return [t for t in figure.data if t.type == "scatter" and t.x[0] is not None and t.marker.symbol == symbol]


def test_the_scale_has_the_fixed_steps_and_below_one_is_apart() -> None:
    values = [0.97, 1.0, 1.049, 1.05, 1.2, 1.5, 2.0, 2.99, 3.0, 40.0]
    assert SLOWDOWN.classes(values).tolist() == [0, 1, 1, 2, 3, 4, 5, 5, 6, 6]
    assert np.isnan(SLOWDOWN.classes([NAN])[0])
    for theme in ("light", "dark"):
        assert len(set(SLOWDOWN.colours(theme))) == 7


def test_colour_is_the_class_and_markers_cover_every_cell(matrix) -> None:
    m = matrix(np.array([[1.1, 2.5], [NAN, 0.9]]))
    figure = slowdown_heatmap(m)
    heat, markers = figure.data[0], figure.data[1]
    assert heat.z[0].tolist() == [2, 5]
    assert np.isnan(heat.z[1][0])
    assert heat.z[1][1] == 0
    assert [place_of(m, row) for row in markers.customdata] == [
        ("job 0", "job 0"), ("job 0", "job 1"), ("job 1", "job 0"), ("job 1", "job 1"),
    ]  # fmt: skip
    assert place_of(m, {"0": 1, "1": 0}) == ("job 1", "job 0")  # as a browser hands packed numbers back
    assert (markers.x[1], markers.y[1]) == (1, 0)  # column across, row down
    assert "2.50 x" in markers.hovertext[1]
    assert "not measured" in markers.hovertext[2]
    assert figure.layout.yaxis.range == (1.5, -0.5)


def test_each_gap_has_its_own_mark(matrix) -> None:
    state = np.array([["measured", "did_not_run"], ["not_measured", "flagged"]])
    figure = slowdown_heatmap(matrix(np.array([[1.1, NAN], [NAN, 1.4]]), state=state))
    (dot,), (cross,), (flag,) = _trace(figure, "circle"), _trace(figure, "x-thin"), _trace(figure, "triangle-ne")
    assert (dot.x, dot.y) == ((0,), (1,))
    assert (cross.x, cross.y) == ((1,), (0,))
    assert round(flag.x[0]) == 1
    assert round(flag.y[0]) == 1
    names = {t.name for t in figure.data}
    assert {"not measured", "did not run", "flagged"} <= names
    assert "below 1: doubtful" not in names


def test_predictions_fill_only_what_was_not_measured(matrix) -> None:
    state = np.array([["measured", "did_not_run"], ["not_measured", "measured"]])
    m = matrix(np.array([[1.1, NAN], [NAN, 1.4]]), state=state)
    guess = np.full((2, 2), 1.8)
    predicted = Predicted(guess, guess - 0.1, guess + 0.2)
    shown = numbers_of(m, "slowdown", predicted)
    assert shown[1, 0] == 1.8
    assert np.isnan(shown[0, 1])
    assert shown[0, 0] == 1.1
    figure = slowdown_heatmap(m, predicted=predicted)
    assert "1.80 x (1.70 to 2.00) predicted" in figure.data[1].hovertext[2]
    assert "predicted" in {t.name for t in figure.data}
    difference = numbers_of(m, "difference", predicted)
    assert difference[0, 0] == pytest.approx(100 * (1.8 / 1.1 - 1))
    assert np.isnan(difference[1, 0])


@pytest.mark.parametrize("values", ["slowdown", "stp", "together", "antt", "fairness", "p99"])
def test_every_choice_of_values_draws(matrix, values: str) -> None:
    figure = slowdown_heatmap(matrix(np.array([[1.1, 2.5], [1.2, 1.3]])), values=values, theme="dark")
    assert alt_text(figure)


def test_together_is_what_stp_means(matrix) -> None:
    m = matrix(np.array([[1.0, 1.42], [1.42, 1.0]]))
    assert numbers_of(m, "together")[0, 1] == pytest.approx(71)


def test_alternative_text_tells_size_gaps_and_extremes(matrix) -> None:
    text = alt_text(slowdown_heatmap(matrix(np.array([[1.1, 2.5], [NAN, 1.3]]), ["bert", "gpt <b>"])))
    assert "2 by 2" in text
    assert "1 not measured" in text
    assert "largest 2.50: bert beside gpt <b>" in text  # plain text: nothing to escape


def test_hostile_names_are_text(matrix, hostile) -> None:
    figure = slowdown_heatmap(matrix(np.full((2, 2), 1.5), [hostile, "<b>bold</b>"]))
    drawn = figure.to_json()
    assert "\\u003cscript" not in drawn.split('"meta"')[0]
    for text in (*figure.layout.xaxis.ticktext, *figure.layout.yaxis.ticktext):
        assert "<" not in text
        assert "$" not in text
    assert "\u202e" not in figure.data[1].hovertext[0]
    assert "&lt;script" in figure.data[1].hovertext[0]


def test_labels_stay_distinct_when_cut(matrix) -> None:
    names = [f"{'common-prefix-' * 6}{i}-{'tail' * 20}" for i in range(5)]
    figure = slowdown_heatmap(matrix(np.full((5, 5), 1.5), names))
    assert len(set(figure.layout.yaxis.ticktext)) == 5
    assert all(str(i) in text for i, text in enumerate(figure.layout.yaxis.ticktext))


def test_150_workloads_stay_below_the_payload_and_more_are_refused(matrix) -> None:
    rng = np.random.default_rng(0)
    slowdown = np.exp(np.abs(rng.normal(0.2, 0.3, (150, 150))))
    slowdown[rng.random((150, 150)) < 0.3] = NAN
    names = [f"model-family-{i}-with-a-long-configuration-name_batch{2 ** (i % 7)}" for i in range(150)]
    assert len(slowdown_heatmap(matrix(slowdown, names)).to_json()) < 2_500_000
    with pytest.raises(UsageError, match="too large"):
        slowdown_heatmap(matrix(np.full((151, 151), 1.5)))


def test_multiples_share_rows_and_scale(matrix) -> None:
    first = matrix(np.array([[1.1, 2.5], [1.2, 1.3]]), ["a", "b"])
    second = matrix(np.array([[3.5]]), ["c"])
    figure = slowdown_multiples([first, second])
    heats = [t for t in figure.data if t.type == "heatmap"]
    assert [h.z.shape for h in heats] == [(3, 3), (3, 3)]
    assert heats[0].zmax == heats[1].zmax
    assert heats[1].z[2][2] == 6
    assert figure.layout.yaxis.ticktext[2].startswith("c")
    assert "K80" not in alt_text(figure)


def test_unknown_values_are_refused(matrix) -> None:
    with pytest.raises(UsageError, match="speed"):
        slowdown_heatmap(matrix(np.full((2, 2), 1.5)), values="speed")
    with pytest.raises(UsageError, match="predictions"):
        slowdown_heatmap(matrix(np.full((2, 2), 1.5)), values="difference")


def test_a_pair_that_ran_and_failed_is_marked(matrix) -> None:
    m = matrix(np.array([[1.1, 2.5], [1.2, 1.3]]))
    failed = np.array([[0, 1], [0, 0]])
    figure = slowdown_heatmap(replace(m, failed=failed))
    assert "ran and failed" in [trace.name for trace in figure.data]
    assert "failed in 1 more run" in figure.data[1].hovertext[1]
    assert "ran and failed" not in [trace.name for trace in slowdown_heatmap(m).data]


def test_predictions_take_the_place_of_measurements(matrix) -> None:
    m = matrix(
        np.array([[1.1, 2.5], [NAN, 1.3]]), state=np.array([["measured", "measured"], ["did_not_run", "measured"]])
    )
    guess = Predicted(*(np.full((2, 2), value) for value in (1.5, 1.4, 1.7)))
    shown = only_predicted(m, guess)
    assert numbers_of(shown, "slowdown", guess)[0].tolist() == [1.5, 1.5]
    assert np.isnan(numbers_of(shown, "slowdown", guess)[1, 0])  # what did not run has no slowdown to predict
    assert "1.50 x (1.40 to 1.70) predicted" in slowdown_heatmap(shown, predicted=guess).data[1].hovertext[0]


def test_a_marker_of_small_multiples_says_where_it_stands(matrix) -> None:
    first = matrix(np.array([[1.1, 2.5], [1.2, 1.3]]), ["a", "b"])
    second = matrix(np.array([[1.4]]), ["c"])
    figure = slowdown_multiples([first, second])
    data = [trace.customdata for trace in figure.data if trace.customdata is not None]
    assert place_in([first, second], data[1][-1]) == (1, "c", "c")
    assert place_in([first, second], {"0": 0, "1": 1, "2": 0}) == (0, "a", "b")
