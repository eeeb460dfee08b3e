"""An upload goes to disk piece by piece: beside the browser's own copy in the server no second one is made."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
from pathlib import Path

import pytest

from analysis.errors import InputRefusedError
from analysis.settings import get_settings
from analysis.ui import spool

SIZE = 64 << 20


class Upload(io.RawIOBase):
    """Stands for an uploaded file: gives out pieces, and refuses to be asked for all at once."""

    name = "../../a profile.csv"

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        assert 0 < size <= 4 << 20, "the whole file was asked for"
        size = min(size, self.left)
        self.left -= size
        return b"x" * size

    def getvalue(self) -> bytes:
        raise AssertionError("the whole file was asked for")

    getbuffer = getvalue


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_folder", lambda: tmp_path)


def test_no_second_copy(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        (found,) = spool.spool([Upload(SIZE)])  # type: ignore[list-item]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20
    assert (found.size, found.path.parent, found.name) == (SIZE, tmp_path, Upload.name)
    assert found.sha256 == hashlib.sha256(b"x" * SIZE).hexdigest()
    found.discard()
    assert not list(tmp_path.iterdir())


def test_beyond_the_limit_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_MAX_FILE_BYTES", str(5 << 20))
    get_settings.cache_clear()
    with pytest.raises(InputRefusedError, match="larger than 5 MiB"):
        spool.spool([Upload(SIZE)])  # type: ignore[list-item]
    assert not list(tmp_path.iterdir())
