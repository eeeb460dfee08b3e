"""The readers of tables agree cell by cell wherever the faster ones dare to read at all."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ncu_files import PREAMBLE, Row, long_form, profile_rows

from analysis.ingest.contract.cells import Cells, Header
from analysis.ingest.contract.format import Opened
from analysis.ingest.contract.textstats import measure
from analysis.ingest.formats.ncu import launches as col
from analysis.ingest.source.opening import opened_files
from analysis.ingest.text import repeats
from analysis.ingest.text.exact import read_exact
from analysis.ingest.text.fast import read_fast
from analysis.ingest.text.header import find_header
from analysis.ingest.text.mixed import read_mixed
from analysis.ingest.text.repeats import measure_ahead, read_repeats

PLAIN = (col.VALUE,)


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.ingest.text.repeats.WORTH", 1)


def needed(names: tuple[str, ...]) -> int:
    return names.index(col.VALUE) + 1


def readers(opened: Opened, header: Header) -> dict[str, Cells | None]:
    how = {"needed": needed, "wanted": col.is_long}
    return {
        "exact": read_exact(opened, header, PLAIN, **how),  # type: ignore[arg-type]
        "fast": read_fast(opened, header, PLAIN),
        "mixed": read_mixed(opened, header, PLAIN, **how),  # type: ignore[arg-type]
        "repeats": read_repeats(opened, header, PLAIN),
    }


def table(cells: Cells) -> dict[str, object]:
    found: dict[str, object] = {name: cells.texts(name).to_pylist() for name in sorted(cells.has)}
    found |= {name: cells.at(name, range(cells.count)) for name in (col.KERNEL, col.METRIC)}
    found["lines"] = cells.lines.tolist()
    found["rows_read"] = cells.rows_read
    found["rejected"] = sorted(cells.rejects.faults)
    found["other"] = cells.other_count
    return found


def compare(path: Path, content: bytes) -> set[str]:
    """Read bytes with all readers; return those that read them."""
    path.write_bytes(content)
    assert measure_ahead(path)[0] == measure(path)
    with opened_files(path, spool=path.parent / "spool") as files:
        header = find_header(files[0], col.METRIC, col.is_long)
        if header is None or col.ID not in header.names:
            return set()
        found = readers(files[0], header)
    exact = found["exact"]
    assert exact is not None
    for name in ("fast", "mixed", "repeats"):
        other = found[name]
        if other is not None:
            assert table(other) == table(exact), name
    return {name for name, cells in found.items() if cells is not None}


RULE = Row(1, section="WarpStateStats", rule=("CPIStall", "OPT", 'Words, "more", and\nmore', "global", "1"))
SHORT_RULE = Row(1, section="Occupancy", rule=("Occupancy", "OPT", 'Words, "more"', "global", "1"))
RAGGED = long_form([*profile_rows(2), SHORT_RULE, *profile_rows(3)[14:], SHORT_RULE], era=20, before=PREAMBLE)
REGULAR = long_form(profile_rows(5), before=PREAMBLE)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (REGULAR, {"exact", "fast", "mixed", "repeats"}),
        (REGULAR.replace(b"\n", b"\r\n"), {"exact", "fast", "mixed", "repeats"}),
        (REGULAR.rstrip(b"\n"), {"exact", "fast", "mixed", "repeats"}),
        (REGULAR + b"\n\n==PROF== bye\n", {"exact", "fast", "mixed", "repeats"}),
        (REGULAR.replace(b'"2","4711"', b'\n\r\n"2","4711"', 1), {"exact", "mixed"}),
        (REGULAR.replace(b'"2","4711"', b'epoch 1\n==PROF== x\n"2","4711"', 1), {"exact", "mixed"}),
        (REGULAR.replace(b"(64, 2, 1)", b'(64, "2", 1)'), {"exact"}),
        (REGULAR.replace(b"gemm", b'g""emm"" ""'), {"exact"}),
        (RAGGED, {"exact", "mixed"}),
        (RAGGED.replace(b"\n", b"\r\n"), {"exact", "mixed"}),
        (long_form([*profile_rows(2), RULE], era=20), {"exact"}),
        (REGULAR + REGULAR, {"exact"}),
        (REGULAR + RAGGED, {"exact"}),
    ],
)
def test_readers_agree(tmp_path: Path, content: bytes, expected: set[str]) -> None:
    assert compare(tmp_path / "t.csv", content) == expected


@pytest.mark.parametrize("seed", [REGULAR, RAGGED, REGULAR.replace(b"\n", b"\r\n")])
def test_readers_agree_on_damaged_files(tmp_path: Path, seed: bytes) -> None:
    from test_ncu_properties import mutated

    rng = random.Random(len(seed))
    used: set[str] = set()
    for _ in range(120):
        used |= compare(tmp_path / "t.csv", mutated(seed, rng))
    assert {"exact", "mixed"} <= used


VALUES = ["1", "1,234.5", "", "n/a", "7 (1: 2; 3: 4)", "CachePreferNone", "v" * 31, "v" * 32, "ü" * 40]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_rows_that_repeat_are_never_misread(data: st.DataObject) -> None:
    """Launches with more or fewer metrics, heads of any length, long and odd values; then a byte of it changes."""
    metrics = st.sampled_from(["sm__a.sum", "dram__b.avg", "x" * 40, "gpu__time_duration.sum", "é"])
    kernel = st.sampled_from(["gemm", "void k<float, 4>(const float *, int)", "k" * 300])
    usual = data.draw(st.lists(st.tuples(metrics, st.sampled_from(["", "us", "%"])), min_size=2, max_size=8))
    launches = data.draw(st.integers(4, 9))
    rows = []
    for launch in range(launches):
        name = data.draw(kernel)
        some = usual if data.draw(st.integers(0, 3)) else usual[: data.draw(st.integers(1, len(usual)))]
        rows += [Row(launch, metric, data.draw(st.sampled_from(VALUES)), unit, kernel=name) for metric, unit in some]
    content = long_form(rows, end=data.draw(st.sampled_from(["\n", "\r\n"])), before=PREAMBLE)
    with tempfile.TemporaryDirectory() as folder:
        used = compare(Path(folder) / "t.csv", content)
        long = sum(len(row.value.encode()) > 31 for row in rows)
        assert ("repeats" in used) or len(rows) < 4 * launches or long * 4 > len(rows)
        at = data.draw(st.integers(len(content) // 3, len(content) - 1))
        other = data.draw(st.sampled_from([b"", b'"', b",", b"\n", b"x", b'","', b'"\n"']))
        compare(Path(folder) / "t.csv", content[:at] + other + content[at + data.draw(st.integers(0, 2)) :])


def test_pieces_of_a_table_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that go over the end of a piece, and a piece that is not as the others."""
    monkeypatch.setattr("analysis.ingest.text.repeats._PIECE", 4096)
    content = long_form(profile_rows(60), before=PREAMBLE, end="\r\n")
    assert "repeats" in compare(tmp_path / "t.csv", content)
    bare = content.replace(b'"69.25"', b"69.25")  # in the last launch
    assert compare(tmp_path / "t.csv", bare) == {"exact", "fast", "mixed"}
    first = content.replace(b'"69.25"', b"69.25", 1)  # the others are hashed and not cut
    assert compare(tmp_path / "t.csv", first) == {"exact", "fast", "mixed"}
    assert compare(tmp_path / "t.csv", b"\xef\xbb\xbf" + content) == {"exact", "fast", "mixed", "repeats"}
    long = content.replace(b'"69.25"', b'"69.25' + b"0" * 5000 + b'"', 1)  # longer than a piece
    assert "repeats" not in compare(tmp_path / "t.csv", long)


def test_what_is_no_clean_text_is_not_cut(tmp_path: Path) -> None:
    for odd in (b"\x1b[31m", b"\x00", b"\xff", b"\t", b"\xc3"):
        for place in (b"gemm", b"25.17", b"inst"):
            content = REGULAR.replace(place, place[:1] + odd + place[1:])
            assert odd in content
            path = tmp_path / "t.csv"
            path.write_bytes(content)
            stats, rows = measure_ahead(path)
            assert rows is None
            assert stats == measure(path)
            compare(path, content)


def test_a_file_that_shrinks_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.ingest.text.repeats._PIECE", 4096)
    path = tmp_path / "t.csv"
    path.write_bytes(REGULAR)
    whole = repeats.table_end(path, repeats._header(path))  # type: ignore[arg-type]
    path.write_bytes(REGULAR[:-2000])
    monkeypatch.setattr("analysis.ingest.text.repeats.table_end", lambda *_: whole)
    stats, rows = measure_ahead(path)
    assert rows is None
    assert stats == measure(path)


def test_a_large_irregular_table_is_read_in_one_pass(tmp_path: Path) -> None:
    rows = [Row(n // 4, f"sm__m{n % 4}.sum", f"{n:,}", "cycle") for n in range(40_000)]
    lines = long_form(rows, era=20).splitlines(keepends=True)
    for at in range(30_000, 100, -997):
        lines.insert(at, b"\r\n" if at % 2 else b"step 7, loss 0.3\n")
    assert compare(tmp_path / "t.csv", b"".join(lines)) == {"exact", "mixed"}
