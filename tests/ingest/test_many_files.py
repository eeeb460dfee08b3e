"""A folder of hundreds of small profiles: what each costs does not grow with those that are there already."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from analysis.ingest.importer import import_paths
from analysis.store.database import Database
from analysis.store.queries import repeats

METRICS = (
    ("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst"),
    ("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "inst"),
    ("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "inst"),
    ("gpu__time_duration.sum", "us"),
    ("launch__registers_per_thread", "register/thread"),
)
HEADER = "ID,Process ID,Process Name,Kernel Name,Block Size,Grid Size,Device,CC,Section Name,Metric Name,Metric Unit,"


def folder_of(folder: Path, files: int) -> Path:
    """Write profiles of five launches each, no two with the same durations."""
    folder.mkdir()
    for number in range(files):
        rows = [HEADER + "Metric Value"]
        for launch in range(5):
            for place, (metric, unit) in enumerate(METRICS):
                value = f"{1.25 + number + launch / 8 + place:.3f}"
                rows.append(
                    f'{launch},1,python,kernel_{launch % 3},"(256, 1, 1)","(80, 1, 1)",0,8.0,Metrics,{metric},{unit},'
                    f"{32 if metric.startswith('launch') else value}"
                )
        (folder / f"job{number:03}_A100.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what is asked about repeats, which reads everything that is loaded."""
    asked: list[str] = []
    for name in ("repeated_launches", "runs_again", "repeated_samples"):
        query = getattr(repeats, name)

        def counted(*args: Any, query: Any = query, name: str = name, **options: Any) -> Any:
            asked.append(name)
            return query(*args, **options)

        monkeypatch.setattr(repeats, name, counted)
    return asked


def test_repeats_are_looked_for_once_and_named_for_each_file(
    tmp_path: Path, database: Database, statements: list[str]
) -> None:
    folder = folder_of(tmp_path / "runs", 6)
    # The same launches again: one line more around the table, so that the bytes differ.
    (folder / "zcopy_A100.csv").write_text("==PROF== Disconnected\n" + (folder / "job002_A100.csv").read_text())
    told: list[tuple[float, str]] = []
    reports = import_paths(database, [folder], progress=lambda share, text: told.append((share, text)))

    assert [report.status for report in reports] == ["loaded"] * 7
    assert statements == ["repeated_launches"], "profiles alone need no look at co-runs and telemetry"
    said = {report.file: [text for text in report.warnings if "exported twice" in text] for report in reports}
    assert [file for file, texts in said.items() if texts] == ["zcopy_A100.csv"]
    assert "in job002_A100.csv too" in said["zcopy_A100.csv"][0]
    assert told[0] == (0.0, "job000_A100.csv, file 1 of 7")
    assert told[-1] == (1.0, "7 files read")
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_ids_of_many_files_fit_together(tmp_path: Path, database: Database) -> None:
    """Jobs, profiles and launches of each file are its own, and attributes that were known stay."""
    folder = folder_of(tmp_path / "runs", 4)
    import_paths(database, [folder])
    (folder / "again.csv").write_text((folder / "job001_A100.csv").read_text().replace("kernel_", "other_"))
    import_paths(database, [folder / "again.csv"], workload="job001_A100", gpu="A100")
    found = database.query(
        """SELECT w.name, p.gpu, count(*) AS launches, count(DISTINCT k.source_id) AS files,
                  min((SELECT count(*) FROM kernel_metric m WHERE m.kernel_id = k.kernel_id)) AS fewest
           FROM kernel k JOIN profile p USING (profile_id) JOIN workload w USING (workload_id)
           GROUP BY ALL ORDER BY ALL"""
    )
    assert found.to_dict("list") == {
        "name": ["job000_A100", "job001_A100", "job002_A100", "job003_A100"],
        "gpu": ["A100"] * 4,
        "launches": [5, 10, 5, 5],
        "files": [1, 2, 1, 1],
        "fewest": [len(METRICS)] * 4,
    }
    assert database.scalar("SELECT count(*) - count(DISTINCT kernel_id) FROM kernel") == 0


@pytest.mark.long
def test_cost_of_a_file_does_not_grow(tmp_path: Path) -> None:
    """Print what 500 files cost; what the last hundred cost is about what the first hundred did."""
    folder = folder_of(tmp_path / "runs", 500)
    files = sorted(folder.iterdir())
    with Database(tmp_path / "many.duckdb") as opened:
        import_paths(opened, [folder_of(tmp_path / "first", 2)])
        costs = []
        for first in range(0, 500, 100):
            before = time.process_time()
            import_paths(opened, files[first : first + 100])
            costs.append(time.process_time() - before)
    print(f"500 files of {5 * len(METRICS)} rows: {sum(costs):.1f} CPU s, by hundreds {[round(c, 2) for c in costs]}")
    assert costs[-1] <= 1.6 * min(costs)
