"""Whatever a table of Nsight Compute looks like: same values, every row accounted for, no fault but the own ones."""

from __future__ import annotations

import csv
import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ncu_files import ERAS, PREAMBLE, Row, long_form, profile_rows, stall, wide_form

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.ncu.long import NcuLong
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.store.parsed import Parsed

#: Metrics, their units as printed, and the factor to the base unit.
METRICS = {
    stall("wait"): ("inst", 1.0), stall("barrier"): ("inst", 1.0), "gpu__time_duration.sum": ("us", 1e3),
    "dram__bytes_read.sum": ("Mbyte", 1e6), "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", 1.0),
    "sm__cycles_active.avg.per_second": ("cycle/nsecond", 1e9),
}  # fmt: skip

kernel_names = st.text(
    st.characters(codec="utf-8", exclude_characters="\ufeff", exclude_categories=("Cs", "Cc", "Zl", "Zp")),
    min_size=1,
    max_size=30,
).filter(lambda name: name.strip() != "")


def read(path: Path, content: bytes) -> tuple[Parsed, str]:
    """Read bytes; return what was read, and the text in the encoding that it was taken for."""
    path.write_bytes(content)
    with opened_files(path, spool=path.parent / "spool") as files:
        found = choose(files[0]).parse(files[0], Hints(workload="w", gpu="A100"))
        assert files[0].text is not None
        return found, files[0].text.read_text(encoding="utf-8-sig", errors="replace")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_table_written_in_any_form_is_read_back(tmp_path: Path, data: st.DataObject) -> None:
    draw = data.draw
    era = draw(st.sampled_from(sorted(ERAS)))
    launches = draw(st.integers(1, 5))
    kernels = draw(st.lists(kernel_names, min_size=1, max_size=3))
    german = draw(st.booleans())
    thousands = draw(st.booleans())
    rows, expected = [], {}
    for launch in range(launches):
        for metric, (unit, factor) in METRICS.items():
            value = draw(st.floats(0, 1e7, allow_nan=False)) if metric != "dram__bytes_read.sum" else 1234567.25
            missing = draw(st.integers(0, 9)) == 0
            text = f"{value:,.2f}" if thousands else f"{value:.2f}"
            if german:
                text = text.replace(",", "\0").replace(".", ",").replace("\0", ".")
            rows.append(
                Row(launch, metric, "n/a" if missing else text, "" if missing else unit, kernels[launch % len(kernels)])
            )
            expected[launch, metric] = np.nan if missing else float(f"{value:.2f}") * factor
        if era >= 18 and draw(st.booleans()):
            rule = ("CPIStall", "OPT", 'Words, with "quotes"', "global", "1.5")[: 3 if era == 18 else 5]
            rows.append(Row(launch, section="WarpStateStats", rule=rule, kernel=kernels[launch % len(kernels)]))
    # A value that decides how the file is written.
    deciding = "1.234.567,25" if german else "1,234,567.25"
    rows.append(Row(0, "sm__deciding.sum", deciding, "", kernels[0]))
    expected[0, "sm__deciding.sum"] = 1234567.25
    content = long_form(
        rows,
        era=era,
        before=draw(st.lists(st.sampled_from(PREAMBLE), max_size=4)),
        after=draw(st.lists(st.sampled_from(["==PROF== Disconnected", "bye", ""]), max_size=2)),
        end=draw(st.sampled_from(["\n", "\r\n"])),
        before_end=draw(st.sampled_from(["\n", "\r\n"])),
        delimiter=draw(st.sampled_from([",", ";"])),
    )
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
    found, _ = read(tmp_path / "t.csv", content.decode().encode(encoding))
    assert found.rows_read == len(rows)
    assert found.rows_rejected == 0
    assert len(found.frames["kernel"]) == launches
    table = found.frames["kernel_metric"].to_pandas()  # type: ignore[union-attr, operator]
    assert len(table) + len(found.frames.get("kernel_rule", [])) == len(rows)
    values = {
        (launch, metric): value
        for launch, metric, value in table[["launch", "metric", "value"]].itertuples(index=False)
    }
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(values[key], value, rtol=1e-12)
    names = found.frames["kernel"]["name"].tolist()  # type: ignore[union-attr]
    assert names == [kernels[launch % len(kernels)] for launch in range(launches)]


def _cells(text: str) -> set[str]:
    """All values that stand in a text, however it is cut into lines and cells."""
    found = set(text.replace('"', "").replace("\n", ",").split(","))
    for line in text.split("\n"):
        found.update(next(csv.reader([line]), []))
    return found


def mutated(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        kind = rng.randrange(4)
        at = rng.randrange(len(out)) if out else 0
        if kind == 0:
            del out[at : at + rng.choice((1, 1, 2, 30, 500))]
        elif kind == 1 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            out[at:at] = out[at : at + rng.choice((1, 5, 80, 700))]
        else:
            del out[at:]
    return bytes(out)


SEEDS = {
    "long": long_form(profile_rows(4), before=PREAMBLE),
    "crlf": long_form(profile_rows(3), before=PREAMBLE, end="\r\n", era=17),
    "rules": long_form(
        [*profile_rows(2), Row(1, section="WarpStateStats", rule=("CPIStall", "OPT", "Words, more", "global", "1"))],
        era=20,
    ),
    "raw": wide_form(
        {stall("wait"): ("inst", ["1.5", "2.5", "3.5"]), "gpu__time_duration.sum": ("us", ["1", "2", "3"])}
    ),
}


def check_mutation(path: Path, content: bytes) -> bool:
    """Read damaged bytes; True when something of them was read."""
    try:
        found, text = read(path, content)
    except InputRefusedError:
        return False
    assert found.rows_read == found.rows_loaded + found.rows_rejected
    lines = content.count(b"\n") + content.count(b"\r") + 1
    assert found.rows_read <= lines
    if "kernel_metric" not in found.frames:
        return True
    table = found.frames["kernel_metric"].to_pandas()  # type: ignore[union-attr, operator]
    if found.format == "ncu-long":
        rules = len(found.frames.get("kernel_rule", []))
        assert len(table) + rules + found.rows_set_aside == found.rows_loaded
    there = _cells(text)
    assert set(table["metric"]) <= there | {cell.strip() for cell in there}
    kernel = found.frames["kernel"]
    assert set(kernel["launch_id"]) <= there  # type: ignore[union-attr]
    return True


@pytest.mark.parametrize("form", SEEDS)
def test_damaged_bytes_never_break_the_importer(tmp_path: Path, form: str) -> None:
    count = int(os.environ.get("MUTATIONS", "60"))
    rng = random.Random(f"{form}-{count}")
    usable = sum(check_mutation(tmp_path / "m.csv", mutated(SEEDS[form], rng)) for _ in range(count))
    assert 0 < usable < count


@pytest.mark.long
@pytest.mark.parametrize("form", SEEDS)
def test_two_thousand_damaged_files(tmp_path: Path, form: str) -> None:
    rng = random.Random(form)
    for _ in range(2000):
        check_mutation(tmp_path / "m.csv", mutated(SEEDS[form], rng))


def test_numbers_of_a_damaged_file_stand_in_it(tmp_path: Path) -> None:
    """No number is loaded that the damaged file does not state, such as one put together from two rows."""
    rng = random.Random(5)
    rows = [Row(n, "sm__cycles.sum", str(1000003 * (n + 1)), "cycle") for n in range(12)]
    content = long_form(rows)
    for _ in range(200):
        damaged = mutated(content, rng)
        path = tmp_path / "n.csv"
        path.write_bytes(damaged)
        with opened_files(path, spool=tmp_path / "spool") as files:
            if not NcuLong().sniff(files[0]):
                continue
            try:
                found = NcuLong().parse(files[0], Hints(workload="w", gpu="A100"))
            except InputRefusedError:
                continue
        text = damaged.decode("utf-8", errors="replace")
        for value in found.frames["kernel_metric"].to_pandas()["value"].dropna():  # type: ignore[union-attr, operator]
            assert f"{value:.0f}" in text or f"{value}" in text
