"""An upload goes to disk piece by piece: beside the browser's own copy in the server no second one is made."""

from __future__ import annotations

import hashlib
import io
import os
import tracemalloc
from pathlib import Path

import pytest

from analysis.errors import CancelledError, InputRefusedError
from analysis.ingest import worker
from analysis.ingest.contract.format import Hints
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.parts import upload
from analysis.ui.shell import resources, spool

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


def test_two_databases_beside_one_another_keep_their_uploads_apart(tmp_path: Path) -> None:
    with Database(tmp_path / "a.duckdb") as first, Database(tmp_path / "b.duckdb") as second, Database(None) as third:
        assert resources.uploads(first) != resources.uploads(second)
        assert resources.uploads(third) is None


def test_only_what_was_left_long_ago_is_swept_away(tmp_path: Path) -> None:
    for name in ("import-old", "import-new", "recordings"):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / "import-old", (1e9, 1e9))
    os.utime(tmp_path / "recordings", (1e9, 1e9))
    resources._sweep(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["import-new", "recordings"]


def test_a_cancel_in_the_middle_of_a_large_file_leaves_it_and_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "WORTH", 1)
    asked: list[str] = []

    def progress(_: float, message: str) -> None:
        asked.append(message)
        if len(asked) > 3:
            raise CancelledError("the job was cancelled", "")

    files = []
    for name in ("a.csv", "b.csv"):
        path = tmp_path / name
        path.write_text("run_id,gpu,mechanism,workload,slowdown\n1,T4,CUDA MPS,x,1.5\n1,T4,CUDA MPS,y,1.2\n")
        files.append((spool.Spooled(name, path, "", path.stat().st_size), Hints()))
    with Database(tmp_path / "own.duckdb") as database:
        found = upload.load_all(database, files, progress)
        assert database.scalar("SELECT count(*) FROM source") == 0
    assert (found["cancelled"], found["left"], found["reports"]) == (True, ["a.csv", "b.csv"], [])
    assert set(asked) == {"reading a.csv"}
    assert not list(tmp_path.glob("*.csv"))
