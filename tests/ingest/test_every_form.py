"""Every format: a table written in it is read back, however it is packed; a damaged one never breaks the importer."""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pandas as pd
import pyarrow as pa
import pytest
from form_writers import WRITERS, Written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.registry import FORMATS, choose
from analysis.ingest.source.opening import opened_files
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load, remove_source
from analysis.store.parsed import Parsed


@pytest.fixture(scope="module")
def shelf() -> Iterator[Database]:
    """A database in memory for all tests of the module: what they load they take out again."""
    with Database(None) as opened:
        yield opened


#: A binary report needs NVIDIA's software, or what stands for it; rocprof's tables are written beside their own tests.
ELSEWHERE = {"ncu-rep", "rocprof", "rocprof-trace"}

#: Factors by which units and fractions of them differ from what is printed.
_FACTORS = (1, 1e3, 1e6, 1e9, 1e12, 1e-3, 100, 0.01, 60, 3600, 86400, 2**10, 2**20, 2**30, 2**40)


def packed(content: bytes, how: str, rng: Random) -> bytes:
    if how == "gz":
        return gzip.compress(content, mtime=0)
    if how == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))) as archive:
            archive.writestr("folder/inside.dat", content)
        return out.getvalue()
    return content


def read(content: bytes, folder: Path) -> tuple[Parsed, str]:
    path = folder / "file.dat"
    path.write_bytes(content)
    with opened_files(path, spool=folder / "spool") as files:
        assert len(files) == 1
        text = files[0].text.read_text(encoding="utf-8-sig", errors="replace") if files[0].text else ""
        return choose(files[0]).parse(files[0], Hints(workload="w", gpu="T4")), text


def frame(parsed: Parsed, name: str) -> pd.DataFrame:
    found = parsed.frames[name]
    return found.to_pandas() if isinstance(found, pa.Table) else found


def _figures(parsed: Parsed) -> dict[str, int]:
    """Return how many figures within rows were set aside: no rows, so not among them."""
    count = parsed.report.get("repeated_figures")
    return {"repeated_figures": count} if count else {}


def check(written: Written, name: str, parsed: Parsed) -> None:
    assert parsed.format == name.split()[0]
    assert (parsed.rows_read, parsed.rows_rejected) == (written.rows, written.rejected)
    assert parsed.rows_loaded + parsed.rows_rejected == parsed.rows_read
    assert sum(parsed.set_aside.values()) == parsed.rows_set_aside <= parsed.rows_loaded
    # What was set aside is kept, row by row, so that it can be looked at.
    aside = frame(parsed, "set_aside_row") if "set_aside_row" in parsed.frames else pd.DataFrame(columns=["rule"])
    assert {**parsed.set_aside, **_figures(parsed)} == aside["rule"].value_counts().to_dict()
    assert aside.empty or ((aside["line"] > 0).all() and aside["text"].str.len().gt(0).all())
    if written.values is not None:
        got = sorted(frame(parsed, written.frame)[written.column].dropna())
        assert got == pytest.approx(sorted(written.values), rel=1e-12)


def test_every_format_has_a_writer() -> None:
    assert {name.split()[0] for name in WRITERS} | ELSEWHERE == {form.name for form in FORMATS}


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), how=st.sampled_from(["plain", "plain", "gz", "zip"]))
def test_read_back(name: str, rng: Random, how: str) -> None:
    written = WRITERS[name](rng)
    with tempfile.TemporaryDirectory() as folder:
        check(written, name, read(packed(written.content, how, rng), Path(folder))[0])


@pytest.mark.long
@pytest.mark.parametrize("name", WRITERS)
def test_read_back_many_times(name: str, tmp_path: Path) -> None:
    rng = Random(name)
    for _ in range(200):
        written = WRITERS[name](rng)
        content = packed(written.content, rng.choice(("plain", "gz", "zip")), rng)
        check(written, name, read(content, tmp_path)[0])


def damaged(content: bytes, rng: Random) -> bytes:
    """Cut, flip, duplicate or insert a few bytes."""
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(5):
            case 0:
                del out[at : at + rng.choice((1, 2, 9, 60))]
            case 1 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at:at] = out[at : at + rng.choice((1, 5, 80, 400))]
            case 3:
                out[at:at] = rng.choice((b'"', b",", b"\n", b"\r", b"\x00", b"9" * 30, b"-", b"1e999", b"nan", b"{"))
            case _:
                del out[at:]
    return bytes(out)


def stated(text: str) -> set[float]:
    """All numbers that stand in a text, with signs between thousands or decimals taken either way."""
    found = re.findall(r"\d+(?:[.,]\d*)*(?:[eE][+-]?\d{1,3})?|\.\d+", text.replace('"', ""))
    out = {0.0}
    for word in found:
        for way in (word, word.replace(",", ""), word.replace(".", "").replace(",", "."), *re.split("[,;]", word)):
            try:
                out.add(float(way))
            except ValueError:
                continue
    return out


def damage(database: Database, folder: Path, name: str, how: str, rng: Random) -> str:
    """Read one damaged file; say what became of it."""
    written = WRITERS[name](rng)
    content = damaged(packed(written.content, how, rng), rng)
    try:
        parsed, text = read(content, folder)
    except InputRefusedError as refused:
        return "refused" if refused.cure else "refused without a cure"
    except Exception as error:
        raise AssertionError(f"{name}, {how}: {content!r}") from error
    assert parsed.rows_loaded + parsed.rows_rejected == parsed.rows_read, content
    assert parsed.rejected["reason"].notna().all()
    if text and not name.startswith(("gavel", "kineto", "prometheus")):
        assert parsed.rows_read <= sum(bool(line.strip()) for line in text.splitlines()), content
    # Numbers of members and samples stand in the file; medians of repeats are held elsewhere.
    if text and how == "plain":
        there = stated(text)
        for part, column in (("telemetry", "value"), ("member", "corun_value"), ("kernel_metric", "value")):
            if part in parsed.frames and parsed.format not in ("own-profiles", "own-coruns"):
                for value in frame(parsed, part)[column].dropna():
                    near = any(abs(abs(value) / f - n) <= 1e-9 * n for f in _FACTORS for n in there if n)
                    assert value == 0 or near, (value, content)
    # Nothing that was parsed may fail to load.
    remove_source(database, load(database, parsed, SourceInfo("own", "file", "x", len(content))))
    return "parsed"


@pytest.mark.parametrize("name", WRITERS)
def test_damaged(shelf: Database, tmp_path: Path, name: str) -> None:
    rng = Random(f"{name} damaged")
    outcomes = [damage(shelf, tmp_path, name, "plain", rng) for _ in range(9)]
    assert set(outcomes) <= {"parsed", "refused"}


@pytest.mark.long
@pytest.mark.parametrize("how", ["plain", "gz", "zip"])
@pytest.mark.parametrize("name", ["own-coruns", "kineto-trace", "nvidia-smi-monitor", "nsys-sqlite",
                                  "own-coruns as Parquet", "gavel-oracle", "dcgm-exporter"])  # fmt: skip
def test_damaged_two_thousand_times(shelf: Database, tmp_path: Path, name: str, how: str) -> None:
    rng = Random(f"{name} {how}")
    for _ in range(2000 if how == "plain" else 300):
        assert damage(shelf, tmp_path, name, how, rng) in ("parsed", "refused")
