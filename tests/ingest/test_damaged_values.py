"""Values and bytes that only a damaged file has end in a refusal or a gap, never in another error."""

from __future__ import annotations

import bz2
import io
import zipfile
from pathlib import Path

from analysis.ingest.formats.profilers.kineto import _dims
from analysis.ingest.importer import import_file
from analysis.ingest.text.header import split_line
from analysis.store.database import Database


def test_a_block_without_end_has_no_size() -> None:
    assert _dims([4, 1, 1]) == "(4, 1, 1)"
    assert _dims([4, 1, float("inf")]) is None
    assert _dims([4, 1, 10**400]) is None
    assert _dims([4, 1, "1"]) is None


def test_a_line_that_is_no_row_is_cut_all_the_same() -> None:
    assert split_line('a,"b,c"', ",") == ["a", "b,c"]
    assert split_line("a\rb,c", ",") == ["a\rb", "c"]
    assert split_line(f"a,{'b' * 200_000}", ",")[0] == "a"


def test_damaged_bzip2_in_an_archive_is_refused(database: Database, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.csv", "x" * 5000)
    content = packed.getvalue()
    at = content.index(bz2.compress(b"")[:3])
    path = tmp_path / "a.zip"
    path.write_bytes(content[: at + 4] + b"\x00" * 6 + content[at + 10 :])
    report = import_file(database, path)
    assert report.status == "rejected"
    assert "the zip file is damaged" in str(report.error)
