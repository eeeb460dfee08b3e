"""What the engine returns becomes JSON that any parser reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from analysis.report.plain import json_list, plain, to_json


class _Colour(Enum):
    red = "r"


@dataclass(frozen=True)
class _Cell:
    value: float
    names: tuple[str, ...]


class _Model(BaseModel):
    model_config = {"extra": "allow"}
    gain: float
    path: Path


def test_numbers_that_json_has_no_word_for_become_null() -> None:
    given = [np.nan, float("inf"), -np.inf, pd.NaT, pd.NA, None, np.float32("nan")]
    assert plain(given) == [None] * len(given)


def test_types_of_the_engine_are_converted() -> None:
    given = {
        "int": np.int64(3),
        "float": np.float32(0.5),
        "bool": np.bool_(True),
        "array": np.array([[1.0, np.nan], [2.0, 3.0]]),
        "series": pd.Series([1, 2], dtype="Int64"),
        "when": datetime(2026, 1, 2, tzinfo=UTC),
        "enum": _Colour.red,
        "set": {"b", "a"},
        "cell": _Cell(np.float64(1.5), ("x",)),
        "model": _Model(gain=float("inf"), path=Path("a/b")),
        ("k",): 1,
    }
    assert plain(given) == {
        "int": 3,
        "float": 0.5,
        "bool": True,
        "array": [[1.0, None], [2.0, 3.0]],
        "series": [1, 2],
        "when": "2026-01-02T00:00:00+00:00",
        "enum": "r",
        "set": ["a", "b"],
        "cell": {"value": 1.5, "names": ["x"]},
        "model": {"gain": None, "path": "a/b"},
        "['k']": 1,
    }
    assert type(plain(np.int64(3))) is int
    assert type(plain(np.bool_(True))) is bool


def test_a_frame_is_a_list_of_records() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [np.nan, 1.0], "d": [np.array([1, 2]), []]})
    assert plain(frame) == [{"a": 1, "b": "x", "c": None, "d": [1, 2]}, {"a": 2, "b": None, "c": 1.0, "d": []}]


def test_a_type_without_a_plain_form_is_an_error_and_not_a_repr() -> None:
    with pytest.raises(TypeError, match="object"):
        plain({"x": object()})


def test_the_document_is_ascii_whatever_the_names_are() -> None:
    names = ["Größe", "\u202edrow", "\udcff"]
    text = to_json(names)
    assert text.isascii()
    assert json.loads(text) == names


def test_a_large_document_is_printed_a_line_a_part() -> None:
    matrix = np.full((200, 200), 1.5)
    matrix[3, 4] = np.nan
    text = to_json({"slowdown": matrix, "state": np.full((200, 200), "measured"), "n": 3})
    found = json.loads(text)
    assert found["slowdown"][3][4] is None
    assert found["slowdown"][4][3] == 1.5
    assert found["state"][0][0] == "measured"
    assert len(text.splitlines()) == 5


def test_a_list_in_pieces_is_one_list() -> None:
    pieces = [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": []}), [{"a": float("nan")}]]
    assert json.loads("".join(json_list(iter(pieces)))) == [{"a": 1}, {"a": 2}, {"a": None}]
    assert json.loads("".join(json_list(iter([])))) == []
