"""The guide names every predictor, and every block of the frame."""

from __future__ import annotations

from analysis.predict.frame.terms import schema
from analysis.predict.predictors.registry import PREDICTORS
from analysis.settings import asset

GUIDE = asset("data", "guide", "predictors.md").read_text(encoding="utf-8")


def test_every_predictor_is_named() -> None:
    missing = [name for name in PREDICTORS if f"`{name}`" not in GUIDE and not name.startswith("gpulet-")]
    assert not missing


def test_every_column_says_what_it_means() -> None:
    for column in schema():
        assert column.meaning, column.name
        assert column.unit is not None, column.name
