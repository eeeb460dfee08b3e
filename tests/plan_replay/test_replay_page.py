"""The page: it opens with a small replay, and larger ones go through the job runner."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.charts import cluster_replay as charts
from tests.pages.conftest import Open, _closed_afterwards, app, filled, filled_file  # noqa: F401

PAGE = "pages/plan/cluster_replay.py"


def test_it_answers_at_once(app: Open, filled: Path) -> None:  # noqa: F811
    page = app(PAGE)
    text = " ".join(one.value for one in page.markdown)
    assert "times the load that exclusive use can carry" in text
    assert "Prediction" in text
    assert page.get("plotly_chart")
    assert len(page.dataframe) >= 2
    rests = next(one.value for one in page.caption if "Rests on" in one.value)
    assert "A100" in rests
    assert "\\\\" not in rests, "names are escaped once"


def test_a_larger_one_runs_as_a_job(app: Open, filled: Path) -> None:  # noqa: F811
    page = app(PAGE)
    page.multiselect(key="replay-policies").set_value(["fifo-best", "oracle"])
    page.number_input(key="replay-jobs").set_value(20)
    page.number_input(key="replay-seeds").set_value(1)
    next(one for one in page.button if one.label == "Replay").click()
    page.run(timeout=120)
    for _ in range(50):
        if not page.button or not any(one.label == "Cancel" for one in page.button):
            break
        page.run(timeout=120)
    assert not page.exception
    text = " ".join(one.value for one in page.markdown)
    assert "Oracle" in text


def test_pictures_say_what_they_show() -> None:
    table = pd.DataFrame({
        "title": ["A", "A", "B"], "load": [0.5, 1.5, 1.5], "seeds": 3, "mean_jct_h": [1.0, 2.0, 3.0],
        "mean_jct_h_low": [0.5, None, 2.0], "mean_jct_h_high": [1.5, None, 4.0],
    })  # fmt: skip
    figure = charts.over_load(table)
    assert "A 2" in figure.layout.meta["alt"]
    segments = pd.DataFrame(
        [("G", 0, 0, "a", 0.0, 10.0, ""), ("G", 0, 0, "a", 10.0, 20.0, "<b>"), ("G", 0, 1, "<b>", 10.0, 20.0, "a")],
        columns=["gpu", "place", "number", "workload", "start_s", "end_s", "beside"],
    )
    drawn = charts.gantt(segments)
    assert "3 stretches on 1 GPUs, 2 of them shared" in drawn.layout.meta["alt"]
    assert "<b>" not in str(drawn.data[1].name)
    assert list(drawn.data[0].base) == pytest.approx([0.0, 10 / 3600])
