"""The sample: same seed, same bytes; loaded once, marked as simulated, removable; hidden beside measurements."""

from __future__ import annotations

import csv
import gzip
import io
import time
import zipfile
from pathlib import Path

import pytest

from analysis.errors import CancelledError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.own.templates import CORUNS
from analysis.ingest.importer import import_all, import_file
from analysis.settings import asset, get_settings
from analysis.sharing import sample
from analysis.sharing.sample import GPUS, write_sample
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, settings, sources

SAMPLE = Filter(datasets=("sample",))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Database:
    database = Database(tmp_path_factory.mktemp("sample") / "sample.duckdb")
    seen: list[float] = []
    begin = time.process_time()
    reports = sample.load(database, lambda share, _: seen.append(share))
    spent = time.process_time() - begin
    print(f"the sample loads in {spent:.1f} s of processor time")
    assert spent < 5
    assert seen == sorted(seen)
    assert len(seen) > 20
    assert all(report.status == "loaded" and not report.rows_rejected for report in reports)
    return database


@pytest.fixture(scope="module")
def made_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again")
    write_sample(folder, gpus=("H100-SXM",))
    return folder


def test_the_same_seed_gives_the_shipped_bytes(made_again: Path) -> None:
    shipped = asset("data", "samples")
    name = "profiles_H100-SXM.zip"
    with zipfile.ZipFile(made_again / name) as mine, zipfile.ZipFile(shipped / name) as theirs:
        assert mine.namelist() == theirs.namelist()
        for member in mine.namelist():
            assert mine.read(member) == theirs.read(member)
    shipped_rows, rows = (
        [
            row
            for row in csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
            if row["gpu"] == "H100-SXM"
        ]
        for path in (shipped / "coruns.csv.gz", made_again / "coruns.csv.gz")
    )
    # The table of one GPU has no columns for what only others use.
    assert [{name: row[name] for name in rows[0]} for row in shipped_rows] == rows


def test_another_seed_gives_other_numbers(made_again: Path, tmp_path: Path) -> None:
    write_sample(tmp_path, seed=1, gpus=("H100-SXM",))
    for name in ("coruns.csv.gz", "profiles_H100-SXM.zip"):
        assert (tmp_path / name).read_bytes() != (made_again / name).read_bytes()


def test_small_enough_to_ship() -> None:
    assert sum(path.stat().st_size for path in sample.files()) < 2_000_000


def test_everything_of_it_is_marked(loaded: Database) -> None:
    held = sources.sources(loaded, SAMPLE)
    assert held["simulated"].all()
    assert sources.datasets(loaded).loc[0, "simulated"]
    assert coruns.members(loaded, SAMPLE)["simulated"].all()


def test_workloads_gpus_and_sets(loaded: Database) -> None:
    workloads = sources.workloads(loaded, SAMPLE)
    assert len(workloads) == 24
    assert workloads["family"].nunique() == 12
    assert (workloads["profiles"] == len(GPUS)).all()
    members = coruns.members(loaded, SAMPLE)
    assert set(members["gpu"]) == set(GPUS)
    runs = members.drop_duplicates("run_id")
    # Members that were given a part of the SMs are runs of their own kind.
    whole = runs[runs["thread_percentage"].isna() & (runs["mechanism"] == "CUDA MPS")]
    assert (whole[whole["k"] == 2].groupby("gpu").size() == 300).all()
    assert (whole[whole["k"] == 3].groupby("gpu").size() >= 40).all()
    assert (whole[whole["k"] == 4].groupby("gpu").size() >= 20).all()
    assert runs.groupby("mechanism").size().drop("CUDA MPS").min() >= 10
    assert set(runs.loc[runs["mechanism"] == "MIG", "gpu"]) == {"A100-80GB", "H100-SXM"}
    assert members.loc[members["phase"] == "inference", "p99_solo_ms"].dropna().gt(0).all()


def test_sets_that_do_not_fit_did_not_run(loaded: Database) -> None:
    members = coruns.members(loaded, SAMPLE)
    limit = {"V100-32GB": 32768, "A100-80GB": 81920, "H100-SXM": 81920, "RTX 4090": 24576}
    together = members.groupby("run_id")["peak_memory_mib"].sum()
    first = members.drop_duplicates("run_id").set_index("run_id")
    too_large = together > first["gpu"].map(limit)
    assert set(first.loc[too_large, "run_outcome"]) == {"did_not_run"}
    assert first.loc[together < 0.9 * first["gpu"].map(limit), "run_outcome"].eq("ran").all()


def test_loading_twice_changes_nothing(loaded: Database) -> None:
    before = len(sources.sources(loaded))
    assert {report.status for report in sample.load(loaded)} == {"duplicate"}
    assert len(sources.sources(loaded)) == before


def test_a_file_of_it_stays_simulated_wherever_it_is_loaded(database: Database, tmp_path: Path) -> None:
    shipped = asset("data", "samples", "profiles_V100-32GB.zip")
    with zipfile.ZipFile(shipped) as archive:
        name = archive.namelist()[0]
        (tmp_path / name).write_bytes(archive.read(name))
    report = import_file(database, tmp_path / name, hints=Hints(dataset="mine"))
    assert report.status == "loaded"
    assert sources.is_simulated(database, "mine")


def test_simulated_and_measured_never_share_a_data_set(database: Database, tmp_path: Path) -> None:
    measured = tmp_path / "measured.csv"
    measured.write_text(CORUNS.csv())
    into_sample = import_file(database, measured, hints=Hints(dataset="sample"))
    assert into_sample.status == "rejected"
    assert "another data set" in (into_sample.error or "")
    assert import_file(database, measured, hints=Hints(dataset="own")).status == "loaded"
    simulated = import_all(database, asset("data", "samples", "coruns.csv.gz"), hints=Hints(dataset="own"))[0]
    assert simulated.status == "rejected"
    assert "is simulated" in (simulated.error or "")


def test_first_start_off_and_removed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not sample.wanted(database)  # the tests run with STALLSCOPE_SAMPLE=off
    monkeypatch.setenv("STALLSCOPE_SAMPLE", "on")
    get_settings.cache_clear()
    assert sample.wanted(database)
    assert sample.state(database) == "absent"
    sample.remove(database)
    assert not sample.wanted(database)


def test_measurements_hide_it_and_one_word_shows_it(database: Database, tmp_path: Path) -> None:
    assert (
        import_file(database, asset("data", "samples", "jobs.csv.gz"), hints=Hints(dataset="sample")).status == "loaded"
    )
    assert sample.state(database) == "shown"
    measured = tmp_path / "measured.csv"
    measured.write_text(CORUNS.csv())
    import_file(database, measured)
    assert sample.state(database) == "hidden"
    sample.show(database, True)
    assert sample.state(database) == "shown"
    assert sample.remove(database) == 1
    assert sample.state(database) == "absent"


def test_the_sample_is_there_as_a_whole_or_not_at_all(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_SAMPLE", "on")
    get_settings.cache_clear()
    parts = [asset("data", "samples", name) for name in ("jobs.csv.gz", "coruns.csv.gz")]
    monkeypatch.setattr(sample, "files", lambda: parts)

    def cancelled(_: float, message: str) -> None:
        if "coruns" in message:
            raise CancelledError("enough", "")

    with pytest.raises(CancelledError):
        sample.load(database, cancelled)
    assert sources.sources(database).empty
    assert sample.wanted(database)
    # Ended in between by something that nobody can catch: the next start completes it.
    settings.put(database, "sample_loading", "yes")
    assert sample.import_bundle(database, parts[0], lambda _: Hints(dataset="sample"), None).status == "loaded"
    assert sample.wanted(database)
    sample.load(database)
    assert len(sources.sources(database)) == 2
    assert not sample.wanted(database)
