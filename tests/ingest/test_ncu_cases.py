"""Real exports of Nsight Compute give their rows, launches, kernels and reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.ingest.importer import ImportReport, import_file
from analysis.store.database import Database
from analysis.store.queries import profiles

SEVENTEEN = {
    "barrier", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard", "math_pipe_throttle", "membar",
    "mio_throttle", "misc", "no_instruction", "not_selected", "selected", "short_scoreboard", "sleeping",
    "tex_throttle", "wait",
}  # fmt: skip


def load(database: Database, cases: Path, name: str) -> ImportReport:
    path = cases / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return import_file(database, path)


@pytest.mark.parametrize(
    ("name", "rows", "launches", "kernels", "reasons", "era"),
    [
        ("xplacer-v100-ncu2019-spmv.txt", 3705, 5, 1, 11, "12 columns"),
        ("polyfhe-a100-stall.csv", 816, 48, 8, 17, "15 columns"),
        ("polyfhe-rtx4090-stall-set1.csv", 442, 26, 26, 17, "15 columns"),
        ("polyfhe-rtx4090-nvtx-stall.csv", 119, 7, 1, 17, "17 columns"),
        ("clima-a100-details-base.csv", 541, 6, 6, 0, "20 columns"),
        ("llmperf-rtx5090-details-k1.csv", 48, 1, 1, 0, "20 columns"),
        ("roofline-rtx5070-ncu-gemm-tiled.csv", 12, 1, 1, 0, "15 columns"),
        ("turing-windows-ncu-na.csv", 30, 5, 3, 0, "15 columns"),
        ("polyfhe-rtx4090-memtransfer.csv", 354, 354, 59, 0, "15 columns"),
    ],
)
def test_counts(
    database: Database, cases: Path, name: str, rows: int, launches: int, kernels: int, reasons: int, era: str
) -> None:
    report = load(database, cases, name)
    assert report.error is None
    assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (rows, rows, 0)
    assert (report.launches, report.kernels, len(report.stall_reasons)) == (launches, kernels, reasons)
    assert report.report["era"].startswith(era)
    assert database.scalar("SELECT count(DISTINCT (process_id, launch_id)) FROM kernel") == launches
    if reasons == 17:
        assert set(report.stall_reasons) == SEVENTEEN


def test_v100_of_2019(database: Database, cases: Path) -> None:
    report = load(database, cases, "xplacer-v100-ncu2019-spmv.txt")
    assert report.report["lines_skipped"] == 9
    assert report.set_aside == {"max_rate": 340}
    stalls = profiles.stall_metrics(database)
    first = stalls[(stalls["launch_id"] == "0") & (stalls["stall_family"] == "per_issue_active")]
    assert first.set_index("reason").at["long_scoreboard", "value"] == 86.01
    assert first["value"].sum() == pytest.approx(95.68)
    assert not first["reason"].duplicated().any()
    active = profiles.metrics(database, names=("smsp__average_warps_active_per_issue_active.ratio",))
    assert active["value"].tolist()[0] == 126.55
    assert report.report["accounted"]["launches_below_95"] == 5
    assert report.report["corrupt_names"]


def test_ada_kernels_that_lack_a_reason(database: Database, cases: Path) -> None:
    report = load(database, cases, "polyfhe-rtx4090-stall-set1.csv")
    told = next(text for text in report.warnings if "unaccounted" in text)
    assert "42.6 %" in told
    assert "43.2 %" in told


def test_details_with_rules(database: Database, cases: Path) -> None:
    report = load(database, cases, "clima-a100-details-base.csv")
    assert database.scalar("SELECT count(*) FROM kernel_metric") == 480
    assert database.scalar("SELECT count(*) FROM kernel_rule") == 61
    assert report.report["top_reasons_from_rules"] == ["long_scoreboard", "wait"]
    assert profiles.rules(database)["top_share"].dropna().tolist() == [31.8, 33.0, 32.3, 43.5, 42.2]
    assert "Memory Throughput" in report.report["labels_in_two_sections"]
    assert set(report.report["units_converted"]["Duration"]) == {"us", "ms"}
    assert profiles.kernels(database)["duration_ns"].max() == pytest.approx(30.86e6)


def test_windows_output_names_the_gpu(database: Database, cases: Path) -> None:
    report = load(database, cases, "roofline-rtx5070-ncu-gemm-tiled.csv")
    assert report.gpus == ["RTX 5070"]
    assert report.report["lines_skipped"] == 8
    assert report.report["encoding"] == "utf-8-sig"
    read = profiles.metrics(database, names=("dram__bytes_op_read.sum",))
    assert read["value"].tolist() == [53261312.0]


def test_misspelt_metrics_are_named(database: Database, cases: Path) -> None:
    report = load(database, cases, "turing-windows-ncu-na.csv")
    nearest = {item["metric"]: item["nearest"] for item in report.report["not_available"]}
    assert nearest == {
        "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.avg": (
            "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct"
        ),
        "smsp__warp_issue_stalled_math_throttle_per_warp_active.avg": (
            "smsp__warp_issue_stalled_math_pipe_throttle_per_warp_active.pct"
        ),
    }


def test_units_change_row_by_row(database: Database, cases: Path) -> None:
    report = load(database, cases, "polyfhe-rtx4090-memtransfer.csv")
    assert report.report["units_converted"]["dram__bytes_read.sum"] == {"Kbyte": 12, "Mbyte": 342}


def test_missing_values_are_null(database: Database, cases: Path) -> None:
    load(database, cases, "llmperf-rtx5090-details-k1.csv")
    assert database.scalar("SELECT count(*) FROM kernel_metric WHERE text = 'n/a' AND value IS NULL") == 3


def test_summary(database: Database, cases: Path) -> None:
    report = load(database, cases, "giotyp-a100-summary-metrics.csv")
    assert (report.format, report.rows_read, report.kernels) == ("ncu-summary", 22, 2)
    assert profiles.kernels(database)["invocations"].tolist() == [100, 100]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("polyfhe-text-not-csv.csv", ("text report of Nsight Compute", "ncu --import", "--csv")),
        ("ncu-failed-ctrperm.txt", ("permission", "NVreg_RestrictProfilingToAdminUsers=0")),
    ],
)
def test_refused(database: Database, cases: Path, name: str, words: tuple[str, ...]) -> None:
    report = load(database, cases, name)
    assert report.status == "rejected"
    assert all(word in str(report.error) for word in words)
    assert database.scalar("SELECT count(*) FROM source") == 0
