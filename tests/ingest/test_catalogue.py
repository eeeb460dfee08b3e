"""The catalogue: what it states, local copies in any order, and downloads that are checked."""

from __future__ import annotations

import gzip
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from analysis.errors import CancelledError, InputRefusedError, NotFoundError, UsageError
from analysis.ingest import catalogue, public
from analysis.ingest.catalogue import CatalogueEntry, CatalogueFile, address, fetch, load_dataset, missing
from analysis.ingest.importer import import_paths
from analysis.ingest.registry import FORMATS
from analysis.store.database import Database
from analysis.store.loader import remove_source
from analysis.store.queries import coruns, sources

_PAIRS = (
    "workload1,workload2,w1throughput,w2throughput,w1exclusive_throughput,w2exclusive_throughput\n"
    "a_batch1-inf,b_batch1-inf,5,5,10,10\na_batch1-inf,c_batch1-inf,5,5,10,8\n"
)
_TRIPLES = (
    'workload1,workload2,workload3,"(w1_100, w2_100, w3_100)"\n'
    'a_batch1-inf,b_batch1-inf,c_batch1-inf,"(2.0, 2.0, 2.0)"\n'
)


@pytest.fixture
def copies(tmp_path: Path) -> dict[str, Path]:
    """Small files in the form of the data set kace."""
    files = {}
    for name, text in (("z-pairs.csv", _PAIRS), ("a-triples.csv", _TRIPLES), ("other.csv", "x,y\n1,2\n")):
        files[name] = tmp_path / name
        files[name].write_text(text)
    return files


def test_every_entry_is_complete() -> None:
    formats = {form.name for form in FORMATS}
    names = [entry.name for entry in catalogue.entries()]
    assert names == ["kace", "gavel-oracle", "gavel-sim", "lucid", "tally", "witness"]
    for entry in catalogue.entries():
        assert {file.format for file in entry.files} <= formats
        assert any(not file.optional for file in entry.files)
        assert all(len(file.sha256) == 64 and file.size > 0 for file in entry.files)
        assert entry.size == sum(file.size for file in entry.files)
        assert entry.licence
        assert entry.citation
        assert entry.model_dump(mode="json")["downloadable"] == (entry.name != "kace")


def test_copies_are_told_apart_by_content(database: Database, copies: dict[str, Path], small: CatalogueEntry) -> None:
    reports = catalogue.load_dataset(
        database, "kace", [copies["a-triples.csv"], copies["other.csv"], copies["z-pairs.csv"]]
    )
    assert [(report.file, report.status) for report in reports] == [
        ("z-pairs.csv", "loaded"), ("a-triples.csv", "loaded"), ("other.csv", "rejected"),
    ]  # fmt: skip
    # The pairs are loaded first, so the triples find their solo values.
    members = coruns.members(database)
    assert members["slowdown"].notna().all()
    assert set(members["dataset"]) == {"kace"}
    row = sources.datasets(database).iloc[0]
    assert row["title"].startswith("KACE")
    assert row["citation"]


def test_optional_files_may_come_later_and_needed_ones_may_not_be_missing(
    database: Database, copies: dict[str, Path], small: CatalogueEntry
) -> None:
    with pytest.raises(InputRefusedError, match=r"kace needs pairs\.csv"):
        catalogue.load_dataset(database, "kace", [copies["a-triples.csv"]])
    assert sources.sources(database).empty
    catalogue.load_dataset(database, "kace", [copies["z-pairs.csv"]])
    catalogue.load_dataset(database, "kace", [copies["a-triples.csv"]])
    assert coruns.members(database)["slowdown"].notna().all()


def test_other_bytes_never_stand_under_the_name_of_a_public_set(
    database: Database, copies: dict[str, Path], small: CatalogueEntry
) -> None:
    other = copies["z-pairs.csv"]
    other.write_text(_PAIRS + "a_batch1-inf,d_batch1-inf,5,5,10,8\n")
    with pytest.raises(InputRefusedError, match="aren't those that were published") as refused:
        catalogue.load_dataset(database, "kace", [copies["a-triples.csv"], other])
    assert "--as NAME" in refused.value.sentence
    assert sources.sources(database).empty
    with pytest.raises(UsageError, match="name of a public data set"):
        catalogue.load_dataset(database, "kace", [other], dataset="kace")
    reports = catalogue.load_dataset(database, "kace", [other], dataset="mine")
    assert any("bytes differ" in warning for warning in reports[0].warnings)
    catalogue.load_dataset(database, "kace", [copies["a-triples.csv"]], dataset="mine")
    members = coruns.members(database)
    assert set(members["dataset"]) == {"mine"}
    assert members["slowdown"].notna().all()
    assert "own version" in sources.datasets(database).iloc[0]["title"]


def test_own_files_under_a_public_name_are_told(
    database: Database, copies: dict[str, Path], small: CatalogueEntry
) -> None:
    (known,) = import_paths(database, [copies["z-pairs.csv"]], dataset="kace")
    assert not any("public" in warning for warning in known.warnings)
    copies["z-pairs.csv"].write_text(_PAIRS.replace("5,5,10,8", "5,6,10,8"))
    (other,) = import_paths(database, [copies["z-pairs.csv"]], dataset="kace")
    assert any("kace is the name of a public data set" in warning for warning in other.warnings)
    (own,) = import_paths(database, [copies["a-triples.csv"]], dataset="mine")
    assert not any("public" in warning for warning in own.warnings)


def test_copies_keep_the_names_that_the_user_gave(
    database: Database, copies: dict[str, Path], small: CatalogueEntry, tmp_path: Path
) -> None:
    spooled = copies["z-pairs.csv"].rename(tmp_path / "33e3b9b0")
    reports = catalogue.load_dataset(database, "kace", [spooled], names={spooled: "z-pairs.csv"})
    assert [report.file for report in reports] == ["z-pairs.csv"]
    assert sources.sources(database)["file_name"].tolist() == ["z-pairs.csv"]
    with pytest.raises(InputRefusedError, match=r"needs pairs\.csv.*nowhere\.csv: there is no such file"):
        catalogue.load_dataset(database, "kace", [tmp_path / "nowhere.csv"], dataset="mine")


def test_packed_copies(database: Database, copies: dict[str, Path], tmp_path: Path, small: CatalogueEntry) -> None:
    archive = tmp_path / "kace.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("a-triples.csv", "z-pairs.csv"):
            file.write(copies[name], name)
    reports = catalogue.load_dataset(database, "kace", [archive])
    assert [report.status for report in reports] == ["loaded", "loaded"]
    packed = tmp_path / "pairs.csv.gz"
    packed.write_bytes(gzip.compress(copies["z-pairs.csv"].read_bytes()))
    assert [report.status for report in catalogue.load_dataset(database, "kace", [packed])] == ["duplicate"]


def test_unknown_names_and_files_without_an_address(database: Database) -> None:
    with pytest.raises(NotFoundError, match="gavel-oracle"):
        catalogue.load_dataset(database, "nothing")
    with pytest.raises(InputRefusedError, match="nba556677/KACE-artifact"):
        catalogue.load_dataset(database, "kace")


class _Handler(BaseHTTPRequestHandler):
    """Serves what the test says; counts what was asked."""

    answers: dict[str, tuple[int, dict[str, str], bytes]]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        code, headers, body = self.answers.get(self.path, (404, {}, b""))
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    handler = type("Handler", (_Handler,), {"answers": {}, "asked": []})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def _host(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def _file(name: str, text: str, form: str, **more: object) -> CatalogueFile:
    content = text.encode()
    return CatalogueFile(
        name=name,
        format=form,
        path=f"data set/{name}",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        **more,
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> CatalogueEntry:
    """A catalogue of one data set with two small files."""
    entry = catalogue.entries()[0].model_copy(
        update={
            "repository": "owner/name",
            "commit": "abc1234",
            "files": (
                _file("pairs.csv", _PAIRS, "kace-pairs"),
                _file("triples.csv", _TRIPLES, "kace-triples", optional=True),
            ),
        }
    )
    monkeypatch.setattr(catalogue, "entries", lambda: [entry])
    monkeypatch.setattr(public, "entries", lambda: [entry])
    return entry


def test_a_download_is_checked_and_loaded(
    database: Database, server: ThreadingHTTPServer, small: CatalogueEntry
) -> None:
    base = "/owner/name/abc1234/data%20set/"
    server.RequestHandlerClass.answers = {
        base + "pairs.csv": (200, {}, _PAIRS.encode()),
        base + "triples.csv": (302, {"Location": "/moved"}, b""),
        "/moved": (200, {}, _TRIPLES.encode()),
    }
    told: list[float] = []
    reports = catalogue.load_dataset(
        database, "kace", host=_host(server), progress=lambda fraction, _sentence: told.append(fraction)
    )
    assert [(report.file, report.status, report.warnings) for report in reports] == [
        ("pairs.csv", "loaded", []), ("triples.csv", "loaded", []),
    ]  # fmt: skip
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert list(database.spool.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, {}, _PAIRS.encode()[:-1]), "bytes where"),
        ((200, {}, _PAIRS.encode() + b"x" * 100_000), "more bytes"),
        ((200, {}, _PAIRS.replace("5", "6").encode()), "another checksum"),
        ((404, {}, b""), "can't be fetched"),
        ((302, {"Location": "http://example.org/pairs.csv"}, b""), "isn't an https address"),
        ((302, {"Location": "file:///etc/hostname"}, b""), "can't be fetched|https"),
    ],
)
def test_what_arrives_must_be_what_was_published(
    database: Database, server: ThreadingHTTPServer, small: CatalogueEntry, answer: tuple, words: str
) -> None:
    server.RequestHandlerClass.answers = {"/owner/name/abc1234/data%20set/pairs.csv": answer}
    with pytest.raises(InputRefusedError, match=words):
        catalogue.load_dataset(database, "kace", host=_host(server))
    assert sources.sources(database).empty
    assert list(database.spool.iterdir()) == []


@pytest.mark.parametrize("url", ["http://example.org/x", "file:///etc/hostname", "ftp://127.0.0.1/x", "x"])
def test_only_https_or_this_machine(tmp_path: Path, url: str) -> None:
    with pytest.raises(InputRefusedError, match="https"):
        fetch(url, tmp_path / "x", size=1, sha256="0" * 64)
    assert not (tmp_path / "x").exists()


def test_a_download_can_be_stopped(database: Database, server: ThreadingHTTPServer, small: CatalogueEntry) -> None:
    def stop(_fraction: float, _sentence: str) -> None:
        raise CancelledError("stopped", "")

    with pytest.raises(CancelledError):
        catalogue.load_dataset(database, "kace", host=_host(server), progress=stop)
    assert server.RequestHandlerClass.asked == []


def test_addresses_are_put_together_in_one_place() -> None:
    assert address("o/n", "abc", "a b/c.csv", "https://host/") == "https://host/o/n/abc/a%20b/c.csv"
    assert address("o/n", "abc", "c.csv").startswith("https://")


def test_all_public_sets_from_local_copies(database: Database, datasets: Path) -> None:
    for entry in catalogue.entries():
        if all(file.shipped for file in entry.files):
            continue
        reports = catalogue.load_dataset(database, entry.name, [datasets / file.name for file in entry.files[::-1]])
        assert [(report.file, report.status) for report in reports] == [(file.name, "loaded") for file in entry.files]
        assert not any("bytes differ" in warning for report in reports for warning in report.warnings)
        assert [report.format for report in reports] == [file.format for file in entry.files]
    frame = sources.datasets(database).set_index("name")
    assert frame["runs"].to_dict() == {
        "kace": 181 + 489, "gavel-oracle": 3 * 351, "gavel-sim": 3 * 351, "lucid": 1388, "tally": 84,
    }  # fmt: skip
    assert coruns.members(database).query("dataset == 'kace' and outcome == 'ran'")["slowdown"].notna().all()


def test_the_witness_comes_with_stallscope_and_is_simulated(database: Database) -> None:
    reports = catalogue.load_dataset(database, "witness")
    assert [(report.status, report.rows_rejected) for report in reports] == [("loaded", 0)] * 2
    held = sources.datasets(database).set_index("name").loc["witness"]
    assert held["simulated"]
    assert held["runs"] == 136 + 12
    members = coruns.members(database)
    assert len(members) == 2 * 136 + 3 * 12
    assert members["slowdown"].between(0.95, 4.2).all()
    assert members["workload"].nunique() == 16


def test_a_set_is_loaded_as_a_whole_or_not_at_all(
    database: Database, copies: dict[str, Path], small: CatalogueEntry
) -> None:
    def stop(_: float, sentence: str) -> None:
        if sentence == f"Loading {small.files[1].name}":
            raise CancelledError("enough", "")

    with pytest.raises(CancelledError):
        load_dataset(database, small.name, list(copies.values()), progress=stop)
    assert database.scalar("SELECT count(*) FROM source") == 0
    assert missing(database, small) == []
    # Ended in between by something that nobody can catch: the gap is shown, and the next load fills it.
    load_dataset(database, small.name, list(copies.values()))
    first = database.query("SELECT source_id, format FROM source ORDER BY source_id")
    needed = {file.format: file.name for file in small.files if not file.optional}
    gone = next(row for row in first.to_dict("records") if row["format"] in needed)
    remove_source(database, int(gone["source_id"]))
    assert missing(database, small) == ([needed[gone["format"]]] if len(needed) > 1 else [])
    load_dataset(database, small.name, list(copies.values()))
    assert missing(database, small) == []
