"""The decimal mark is decided once for a file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.ingest.contract.mechanisms import canonical
from analysis.ingest.text.decimals import Decimals, decide
from analysis.reference.mechanism_names import MECHANISMS


@pytest.mark.parametrize(
    ("cells", "delimiter", "mark", "sure"),
    [
        (["1", "2.5"], ",", ".", True),
        (["9,00"], ",", ",", True),
        (["0,435"], ";", ",", True),
        (["1.234,5"], ";", ",", True),
        (["58,748.42", "63,779"], ",", ".", True),
        (["53,261,312"], ",", ".", True),
        (["1.234.567"], ";", ",", True),
        (["63,779"], ",", ".", False),
        (["63,779"], ";", ",", False),
        (["1,5", "2,25", "2.5"], ";", ",", False),
        (["1.5e3"], ",", ".", True),
        (["1.234"], ",", ".", True),
        (["x", ""], ",", ".", True),
        ([], ",", ".", True),
    ],
)
def test_decisions(cells: list[str], delimiter: str, mark: str, sure: bool) -> None:
    found = decide(cells, delimiter)
    assert (found.mark, found.sure) == (mark, sure)
    assert found.reason


@pytest.mark.parametrize(
    ("mark", "text", "value"),
    [
        (".", "1,234.5", 1234.5),
        (".", "1,5", None),
        (".", "1,2345", None),
        (",", "1,5", 1.5),
        (",", "1.5", None),
        (",", "1.234", 1234.0),
        (",", ".5", None),
        (".", "1e400", None),
        (".", "nan", None),
        (".", "0x10", None),
        (".", "1_000", None),
        (".", "", None),
        (".", "-3e-2", -0.03),
        (",", "1 234,5".replace(" ", "\u202f"), 1234.5),
    ],
)
def test_numbers(mark: str, text: str, value: float | None) -> None:
    assert Decimals(mark).number(text) == value


@given(st.lists(st.floats(0.001, 1e7), min_size=1, max_size=20), st.booleans())
def test_written_numbers_are_read_back(values: list[float], comma: bool) -> None:
    cells = [f"{value:.2f}" for value in values]
    if comma:
        cells = [cell.replace(".", ",") for cell in cells]
    found = decide(cells, ";" if comma else ",")
    assert [found.number(cell) for cell in cells] == [float(f"{value:.2f}") for value in values]


def test_mechanisms() -> None:
    assert [canonical(name) for name in MECHANISMS] == list(MECHANISMS)
    assert canonical("MPS") == canonical("nvidia-mps") == "CUDA MPS"
    assert canonical("time slicing") == "time-slicing"
    assert canonical("Orion") == "Orion"
    assert canonical(" ") == "not stated"
