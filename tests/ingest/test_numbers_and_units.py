"""Numbers and units as profilers print them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.ingest.contract.kernel_names import short_name
from analysis.ingest.formats.ncu.advice import top_stall
from analysis.ingest.text.numbers import Separators, convert, decide, plain_numbers
from analysis.ingest.text.units import BaseUnit, base


def numbers(*texts: str) -> list[float]:
    column = pa.array(list(texts), pa.string())
    return convert(column, decide([column])).values.tolist()


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (("1,234 (1; 2)", "3.5 (1.5; 2.0)"), (1234.0, 3.5)),
        (("58'748.42", "1’234"), (58748.42, 1234.0)),
        (("1 234,5", "1\u202f234\u202f567", "1\u00a0000"), (1234.5, 1234567.0, 1000.0)),
        (("1e5", "-3.25", ".5", "+2"), (1e5, -3.25, 0.5, 2.0)),
        (("9,00", "12.345", "-0,5"), (9.0, 12345.0, -0.5)),
    ],
)
def test_forms(texts: tuple[str, ...], values: tuple[float, ...]) -> None:
    assert numbers(*texts) == list(values)


@pytest.mark.parametrize("text", ["n/a", "", "(!) n/a", "nan", "-nan(ind)", "inf", "[N/A]"])
def test_missing_is_not_zero_and_not_wrong(text: str) -> None:
    found = convert(pa.array([text, "1"]), decide([]))
    assert found.missing.tolist() == [True, False]
    assert found.wrong.tolist() == [False, False]
    assert math.isnan(found.values[0])


@pytest.mark.parametrize(
    "text", ["1.2.3", "12x", "1,23,4.5", "--", "0x1f", "1e999", "1 2", "٣", "CachePreferNone", "1,2"]
)
def test_wrong_numbers_are_wrong(text: str) -> None:
    column = pa.array([text, "3.25", "1,000.5"])
    found = convert(column, decide([column]))
    assert found.wrong.tolist() == [True, False, False]
    assert found.values[1:].tolist() == [3.25, 1000.5]


@given(
    st.lists(st.floats(min_value=0, max_value=1e12), min_size=1, max_size=30),
    st.sampled_from([(".", ","), (",", "."), (".", ""), (",", ""), (".", "'"), (",", "\u202f")]),
)
def test_what_a_locale_prints_is_read_back(values: list[float], signs: tuple[str, str]) -> None:
    decimal, thousands = signs
    # One value that only one reading fits stands in the file, as it does in nearly every real one.
    texts = [f"{value:,.2f}" for value in [*values, 1.5]]
    column = pa.array([text.replace(",", "\0").replace(".", decimal).replace("\0", thousands) for text in texts])
    found = convert(column, decide([column]))
    assert not found.wrong.any()
    np.testing.assert_allclose(found.values, [float(text.replace(",", "")) for text in texts])


def test_a_minority_does_not_decide() -> None:
    column = pa.array(["3.25"] * 20 + ["9,5"])
    found = convert(column, decide([column]))
    assert found.wrong.tolist() == [False] * 20 + [True]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("usecond", BaseUnit("ns", 1e3)),
        ("us", BaseUnit("ns", 1e3)),
        ("ms", BaseUnit("ns", 1e6)),
        ("second", BaseUnit("ns", 1e9)),
        ("cycle/nsecond", BaseUnit("hz", 1e9)),
        ("cycle/usecond", BaseUnit("hz", 1e6)),
        ("Ghz", BaseUnit("hz", 1e9)),
        ("hz", BaseUnit("hz", 1.0)),
        ("Kbyte", BaseUnit("byte", 1e3)),
        ("Mbyte", BaseUnit("byte", 1e6)),
        ("MiB", BaseUnit("byte", 2.0**20)),
        ("Gbyte/s", BaseUnit("byte/s", 1e9)),
        ("byte/second", BaseUnit("byte/s", 1.0)),
        ("Kbyte/block", BaseUnit("byte/block", 1e3)),
        ("register/thread", BaseUnit("register/thread", 1.0)),
        ("inst/cycle", BaseUnit("inst/cycle", 1.0)),
        ("sector", BaseUnit("sector", 1.0)),
        ("branches", BaseUnit("branches", 1.0)),
        ("%", BaseUnit("%", 1.0)),
        ("", BaseUnit(None, 1.0)),
        ("furlong", BaseUnit("furlong", 1.0)),
    ],
)
def test_units(unit: str, expected: BaseUnit) -> None:
    found = base(unit)
    assert found.name == expected.name
    assert found.factor == pytest.approx(expected.factor)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void unnamed>::gemm_tiled_kernel<32>(const float *, int)", "gemm_tiled_kernel"),
        ("void at::native::(anonymous namespace)::index<float, a<b>>(at::detail::X<float>)", "index"),
        ("enable_if<!T7, void>::type kernel<int, cublasGemvParamsEx<int, X<const half>, float>>(T13)", "kernel"),
        ("_ZN2at6native18elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEEEviT0_", "elementwise_kernel"),
        ("_Z4axpyPfS_i", "axpy"),
        ("decltype(auto) run<{lambda()#2}>(int)", "run"),
        ("volta_sgemm_128x32_nn", "volta_sgemm_128x32_nn"),
        ("f(int) [clone .x]", "f"),
    ],
)  # fmt: skip
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text(alphabet="abZ_<>(){}[]:,*& 0123456789NEIL", max_size=60))
def test_short_names_never_fail(name: str) -> None:
    assert short_name(name) or not name.strip()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("waiting for a scoreboard dependency on a L1TEX (local, global) operation", "long_scoreboard"),
        ("waiting for a scoreboard dependency on a MIO (memory input/output) operation", "short_scoreboard"),
        ("waiting for sibling warps at a CTA barrier", "barrier"),
        ("waiting on a fixed latency execution dependency", "wait"),
        ("waiting for the execution pipe to be available", "math_pipe_throttle"),
        ("waiting for the MIO (memory input/output) instruction queue to be not full", "mio_throttle"),
        ("waiting for the L1 instruction queue for local and global (LG) memory operations", "lg_throttle"),
        ("waiting for an immediate constant cache (IMC) miss", "imc_miss"),
        ("due to not having the next instruction fetched yet", "no_instruction"),
    ],
)
def test_rule_texts(words: str, reason: str) -> None:
    text = (
        f"On average, each warp of this kernel spends 7.8 cycles being stalled {words}. Try more. This represents "
        "about 33.6% of the total average of 23.1 cycles between issuing two instructions. Other barrier advice: L1TEX."
    )
    assert top_stall("CPIStall", text) == (reason, 33.6)
    assert top_stall("Occupancy", text) == (None, None)
    assert top_stall("CPIStall", "Check the Warp Stall Sampling table") == (None, None)


@given(
    st.lists(
        st.one_of(
            st.floats(0, 1e9).map(lambda number: f"{number:,.3f}"),
            st.text("0123456789,.", min_size=0, max_size=9),
            st.lists(st.text("01", min_size=1, max_size=4), min_size=1, max_size=3).map(",".join),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_short_way_is_the_long_way(cells: list[str]) -> None:
    column = pa.array(["7", *cells, "9"]).slice(1, len(cells))
    quick = plain_numbers(column)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("analysis.ingest.text.numbers.plain_numbers", lambda text: None)
        whole = convert(column, Separators(".", ",", ""))
    assert (quick is None) == bool(whole.wrong.any() or whole.missing.any())
    if quick is not None:
        assert quick.tolist() == whole.values.tolist()
