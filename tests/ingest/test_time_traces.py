"""What only measures time is recognised as such in every form, whatever else the form prints beside durations."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from form_writers import WRITERS
from tool_files import imported

from analysis.ingest.importer import import_paths
from analysis.stalls.kernels import kernel_table
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from analysis.store.queries.profiles import timing_sources


@pytest.mark.parametrize("name", ["nsys-kern-sum", "nsys-gpu-trace", "nsys-sqlite", "kineto-trace", "nvprof-summary"])
def test_every_form_of_a_trace_only_measures_time(name: str, database: Database, tmp_path: Path) -> None:
    for seed in range(20):  # some random tables are empty of kernels
        path = tmp_path / f"{seed}.dat"
        path.write_bytes(WRITERS[name](Random(seed)).content)
        report = imported(database, path)
        if report.rows_loaded:
            break
    timed = database.scalar("SELECT count(*) FROM kernel WHERE duration_ns IS NOT NULL")
    assert timed
    assert len(timing_sources(database)) == 1
    counters = WRITERS["ncu-raw"](Random(3)).content
    (tmp_path / "counters.dat").write_bytes(counters)
    imported(database, tmp_path / "counters.dat")
    assert len(timing_sources(database)) == 1


@pytest.mark.parametrize("turn", [1, -1])
def test_real_stalls_are_weighed_by_the_time_of_a_real_trace(
    turn: int, cases: Path, database: Database, tmp_path: Path
) -> None:
    files = [cases / "polyfhe-rtx4090-stall-set1.csv", cases / "polyfhe-nsys-kernsum.csv"][::turn]
    import_paths(database, files, dataset="own", workload="P", gpu="RTX 4090")
    shares = stall_shares(database).set_index("reason")
    assert set(shares["weight"]) == {"GPU time"}
    assert shares["profiled"].iloc[0] == pytest.approx(100)
    assert shares.loc["long_scoreboard", "share"] == pytest.approx(31.69, abs=0.005)
    assert shares.loc["mio_throttle", "share"] == pytest.approx(26.06, abs=0.005)
    table = kernel_table(database)
    assert len(table) == table["kernel"].nunique() == 26
    assert table["time_share"].sum() == pytest.approx(100)
    assert table["reason"].notna().all()
