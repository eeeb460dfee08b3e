"""nvidia-smi: query logs with any header, and the two monitors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import ENCODINGS, ENDS, imported, parsed, written

from analysis.ingest.importer import import_file
from analysis.store.database import Database

HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], power.draw [W]"
DMON = ["# gpu    pwr  gtemp     sm    mem   mclk", "# Idx      W      C      %      %    MHz"]
PMON = ["# gpu         pid   type     sm    mem    command", "# Idx           #    C/G      %      %    name"]


def samples(database: Database, name: str) -> pd.DataFrame:
    return database.query("SELECT * FROM telemetry WHERE name = ? ORDER BY measured_at, device, entity", [name])


def test_words_in_place_of_values(database: Database, tmp_path: Path) -> None:
    lines = [
        HEADER, "2026/01/03 15:36:53.507, 0, Tesla T4, 4 %, 1121 MiB, 33.28 W",
        "2026/01/03 15:36:53.507, 1, Tesla T4, [N/A], 1121 MiB, [Unknown Error]",
        "2026/01/03 15:36:54.507, 0, Tesla T4, [Not Supported], 1 GiB, [GPU requires reset]",
        "2026/01/03 15:36:54.507, 1, Tesla T4, x %, 1 MiB, 3 W", "yesterday, 1, Tesla T4, 1 %, 1 MiB, 3 W",
        "2026/01/03 15:36:55.507, 1, Tes",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "log.csv", lines))
    assert (report.format, report.rows_read, report.rows_rejected, report.gpus) == ("nvidia-smi-log", 6, 3, ["T4"])
    use = samples(database, "utilization.gpu")
    assert use["value"].fillna(-1).tolist() == [4, -1, -1]
    assert use["reason"].tolist()[1:] == ["N/A", "Not Supported"]
    assert use["device"].tolist() == ["0", "1", "0"]
    memory = samples(database, "memory.used")
    assert memory["unit"].unique().tolist() == ["byte"]
    assert memory["value"].tolist() == [1121 * 2**20, 1121 * 2**20, 2**30]
    assert samples(database, "power.draw")["reason"].tolist()[1:] == ["Unknown Error", "GPU requires reset"]
    assert any("part of time" in text for text in report.warnings)
    assert "ncu --csv" in report.report["command"]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 100), st.floats(0, 700), st.booleans()), min_size=2,
                  max_size=8),
    units=st.booleans(), header=st.sampled_from(["driver", "own", "none"]), end=ENDS, encoding=ENCODINGS,
    before=st.booleans(),
)  # fmt: skip
def test_logs_survive(
    rows: list[tuple[int, int, float, bool]], units: bool, header: str, end: str, encoding: str, before: bool
) -> None:
    units = units or header == "none"
    head = {"driver": "timestamp, index, name, utilization.gpu [%], power.draw [W]",
            "own": "timestamp,gpu_index,name,util_gpu_pct,power_w", "none": None}[header]  # fmt: skip
    lines = ["some output", ""] if before and head else []
    lines += [head] if head else []
    for place, (index, use, power, absent) in enumerate(rows):
        absent = absent and place > 0
        number = f"{use} %" if units else str(use)
        watt = "[N/A]" if absent else f"{power:.2f} W" if units else f"{power:.2f}"
        lines.append(f"2026/01/03 15:36:{place:02d}.507, {index}, NVIDIA A100-SXM4-40GB, {number}, {watt}")
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(written(Path(folder) / "log.csv", lines, end, encoding))
    frame = got.frames["telemetry"].to_pandas()
    assert (got.rows_read, got.rows_rejected) == (len(rows), 0)
    power = frame[frame["name"] == "power.draw"]
    expected = [float("nan") if row[3] and place else round(row[2], 2) for place, row in enumerate(rows)]
    assert power["value"].tolist() == pytest.approx(expected, nan_ok=True)
    assert set(frame["gpu"]) == {"A100-40GB"}
    use = frame[frame["name"].str.startswith("utilization")]
    assert use["value"].tolist() == [row[1] for row in rows]
    if header != "none":
        assert use["device"].tolist() == [str(row[0]) for row in rows]
        assert use["unit"].unique().tolist() == ["%"]


def test_gpus_without_an_index_are_told(tmp_path: Path) -> None:
    rows = ["2026/01/03 15:36:53.507, Tesla T4, 4 %, 33.28 W"] * 2
    path = written(tmp_path / "log.csv", ["timestamp, name, utilization.gpu [%], power.draw [W]", *rows])
    assert any("add `index`" in text for text in parsed(path).warnings)


def test_compute_processes(database: Database, tmp_path: Path) -> None:
    lines = ["gpu_uuid, pid, process_name, used_gpu_memory [MiB]", "GPU-1, 12, python, 300 MiB"]
    imported(database, written(tmp_path / "apps.csv", lines))
    row = samples(database, "used_gpu_memory").iloc[0]
    assert (row["device"], row["entity"], row["value"]) == ("GPU-1", "12 python", 300)


@pytest.mark.parametrize("csv", [False, True])
def test_dmon(database: Database, tmp_path: Path, csv: bool) -> None:
    lines = [*DMON, "    0     43     35      0      0   2619", "    1      -     36     99     12   2619", *DMON,
             "    0     44      -     50      1   2619", "    0     x     35      0      0   2619",
             "   0 43"]  # fmt: skip
    if csv:
        lines = ["#" + ", ".join(line[1:].split()) if line[0] == "#" else ", ".join(line.split()) for line in lines]
    report = imported(database, written(tmp_path / "dmon-T4.txt", lines))
    assert (report.format, report.rows_read, report.rows_rejected, report.gpus) == ("nvidia-smi-monitor", 5, 2, ["T4"])
    power = samples(database, "power.draw")
    assert sorted(power["value"].dropna()) == [43, 44]
    assert power["unit"].unique().tolist() == ["W"]
    assert power["reason"].dropna().tolist() == ["-"]
    assert any("-o DT" in text for text in report.warnings)


def test_dmon_with_time(database: Database, tmp_path: Path) -> None:
    lines = ["#Date       Time        gpu    pwr     sm", "#YYYYMMDD   HH:MM:SS    Idx      W      %",
             "20260103   15:36:53      0     43      7"]  # fmt: skip
    imported(database, written(tmp_path / "dmon.txt", lines))
    assert str(samples(database, "utilization.gpu")["measured_at"][0]) == "2026-01-03 15:36:53"


def test_pmon(database: Database, tmp_path: Path) -> None:
    lines = [*PMON, "    0          -     -      -      -    -",
             "    0       4711   M+C     45     10    python train.py",
             "    1       4712     C     99      -    a b c"]  # fmt: skip
    report = imported(database, written(tmp_path / "pmon.txt", lines))
    assert (report.rows_read, report.rows_rejected, report.set_aside) == (3, 0, {"no_process": 1})
    use = samples(database, "utilization.gpu")
    assert use["entity"].tolist() == ["4711 python train.py", "4712 a b c"]
    assert any("MPS" in text for text in report.warnings)


def test_workload_and_removal(database: Database, tmp_path: Path) -> None:
    from analysis.ingest.contract.format import Hints
    from analysis.store.loader import remove_source

    path = written(tmp_path / "log.csv", [HEADER, "2026/01/03 15:36:53.507, 0, Tesla T4, 4 %, 1 MiB, 3 W"])
    report = import_file(database, path, hints=Hints(workload="resnet50_bs64", gpu="A100-40GB"))
    assert report.gpus == ["A100-40GB"]
    assert database.scalar("SELECT count(*) FROM telemetry JOIN workload USING (workload_id)") == 3
    remove_source(database, int(report.source_id or 0))
    assert database.scalar("SELECT count(*) FROM telemetry") == 0
    assert database.scalar("SELECT count(*) FROM workload") == 0


def test_real_logs(database: Database, cases: Path) -> None:
    log = imported(database, cases / "vlm-rtx4090-nvsmi.csv")
    assert (log.rows_read, log.rows_rejected, log.gpus) == (2619, 0, ["RTX 4090"])
    assert database.scalar("SELECT count(*) FROM telemetry WHERE source_id = ?", [log.source_id]) == 4 * 2619
    own = imported(database, cases / "hami-rtx2000ada-sharing-smi.csv")
    assert (own.rows_read, own.rows_rejected, own.gpus) == (92, 0, ["RTX 2000 Ada"])
    assert any("user's own" in text and "memory_used_mib" in text for text in own.warnings)
