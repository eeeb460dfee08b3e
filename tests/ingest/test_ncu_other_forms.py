"""The summary by kernel and the raw page of Nsight Compute, on files written here."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncu_files import IDENTITY_15, TOTAL, quoted, stall, wide_form

from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_file
from analysis.store.database import Database
from analysis.store.queries import profiles, sources

SUMMARY = [
    "Process ID", "Process Name", "Host Name", "Kernel Name", "Block Size", "Grid Size", "Device", "CC", "Invocations",
    "Section Name", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average",
]  # fmt: skip


def summary(rows: list[tuple[str, str, str, str, str, str, str]]) -> bytes:
    lines = [quoted(SUMMARY)]
    for kernel, count, metric, unit, low, high, mean in rows:
        head = ["1696", "python3.8", "127.0.0.1", kernel, "(1024, 1, 1)", "(216, 1, 1)", "0", "8.0", count]
        lines.append(quoted([*head, "Command line profiler metrics", metric, unit, low, high, mean]))
    return ("\n".join(lines) + "\n").encode()


def test_summary_weighs_by_invocations(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_bytes(
        summary(
            [
                ("a", "100", "gpu__time_duration.sum", "us", "1.00", "9.00", "2.50"),
                ("a", "100", stall("wait"), "inst", "1,000.00", "3,000.00", "2,000.00"),
                ("b", "40", "gpu__time_duration.sum", "ms", "1.00", "9.00", "0.50"),
                ("b", "forty", stall("wait"), "inst", "1.00", "9.00", "1.00"),
                ("b", "40", stall("drain"), "inst", "1.00", "9.00", "1.x"),
            ]
        )
    )
    report = import_file(database, path)
    assert (report.format, report.rows_read, report.rows_loaded, report.rows_rejected) == ("ncu-summary", 5, 3, 2)
    assert (report.launches, report.kernels) == (140, 2)
    kernels = profiles.kernels(database)
    assert kernels["invocations"].tolist() == [100, 40]
    assert kernels["duration_ns"].tolist() == [2500.0, 500000.0]
    assert database.scalar("SELECT text FROM kernel_metric WHERE value = 2000") == "1,000.00 to 3,000.00"


def test_raw_page_takes_units_from_the_row_below_the_header(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(
        b"==PROF== Connected to process 1\n"
        + wide_form(
            {
                "gpu__time_duration.sum": ("us", ["12.5", "13.5", "14.5"]),
                "launch__registers_per_thread": ("register/thread", ["32", "40", ""]),
                stall("wait"): ("inst", ["2.5", "n/a", "1"]),
                stall("wait", "max_rate"): ("", ["1", "1", "1"]),
                TOTAL: ("", ["3.0", "4.0", "1.0"]),
                "launch__func_cache_config": ("", ["CachePreferNone"] * 3),
                "device__attribute_display_name": ("", ["NVIDIA A100-SXM4-80GB"] * 3),
            },
            end="\r\n",
        )
    )
    report = import_file(database, path)
    assert (report.format, report.rows_read, report.rows_rejected, report.launches) == ("ncu-raw", 3, 0, 3)
    assert report.gpus == ["A100-80GB"]
    assert report.stall_reasons == ["wait"]
    kernels = profiles.kernels(database)
    assert kernels["duration_ns"].tolist() == [12500.0, 13500.0, 14500.0]
    assert kernels["line"].tolist() == [4, 5, 6]
    assert profiles.stall_metrics(database)["value"].fillna(-1).tolist() == [2.5, -1, 1]
    registers = profiles.metrics(database, names=("launch__registers_per_thread",))
    assert registers["value"].tolist() == [32, 40]  # an empty cell is no measurement
    assert set(registers["unit"]) == {"register/thread"}


def test_a_damaged_cell_of_the_raw_page_costs_itself(database: Database, tmp_path: Path) -> None:
    text = wide_form({"gpu__time_duration.sum": ("us", ["1", "2x", "3"]), stall("wait"): ("inst", ["1", "2", "3"])})
    path = tmp_path / "raw.csv"
    again = text.decode().splitlines()[-1]
    path.write_bytes(text + again.encode() + b"\n" + b'"9","4711"\n')
    report = import_file(database, path)
    assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (5, 3, 2)
    rejected = sources.rejected_rows(database, 1)
    assert rejected["line"].tolist() == [6, 7]
    assert "stands in line 5 already" in rejected["reason"].tolist()[0]
    assert any("gpu__time_duration.sum is '2x' in line 4" in text for text in report.warnings)
    # The cell has no value, the launch and its stalls are there.
    assert database.scalar("SELECT count(*) FROM kernel_metric WHERE value IS NOT NULL") == 5


def test_raw_page_without_units_says_so(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(wide_form({"gpu__time_duration.sum": ("us", ["1000"])}, units=False))
    report = import_file(database, path)
    assert report.rows_loaded == 1
    assert any("row of units is missing" in text for text in report.warnings)


def test_a_raw_page_may_have_a_thousand_metrics(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(wide_form({f"sm__metric_{n}.sum": ("inst", ["1,000", "2"]) for n in range(1200)}))
    report = import_file(database, path)
    assert (report.rows_read, report.error) == (2, None)
    assert database.scalar("SELECT sum(value) FROM kernel_metric") == 1200 * 1002


def test_two_launches_of_a_raw_page_keep_their_own_columns(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(wide_form({stall("wait"): ("", ["1", "2"]), stall("drain"): ("", ["3", "4"])}))
    import_file(database, path, hints=Hints(workload="w", gpu="A100"))
    found = profiles.stall_metrics(database).pivot_table(index="launch_id", columns="reason", values="value")
    assert found.to_dict() == {"wait": {"0": 1, "1": 2}, "drain": {"0": 3, "1": 4}}
    assert len(IDENTITY_15) == 11


@pytest.mark.parametrize("form", ["summary", "raw"])
def test_header_without_rows_is_refused(database: Database, tmp_path: Path, form: str) -> None:
    path = tmp_path / "empty.csv"
    content = summary([]) if form == "summary" else wide_form({"gpu__time_duration.sum": ("us", [])})
    path.write_bytes(content)
    report = import_file(database, path)
    assert report.status == "rejected"
    assert "no rows" in str(report.error)
    assert database.scalar("SELECT count(*) FROM source") == 0


def test_two_raw_pages_in_one_file_keep_their_own_units_and_metrics(database: Database, tmp_path: Path) -> None:
    first = wide_form({"gpu__time_duration.sum": ("us", ["12.5"]), stall("wait"): ("inst", ["2.5"])})
    second = wide_form({"gpu__time_duration.sum": ("ms", ["1.5"]), "dram__bytes_read.sum": ("Mbyte", ["3"])})
    path = tmp_path / "both.csv"
    path.write_bytes(first + second)
    report = import_file(database, path)
    assert (report.rows_read, report.rows_rejected, report.launches) == (2, 0, 2)
    assert profiles.kernels(database)["duration_ns"].tolist() == [12500.0, 1.5e6]
    assert profiles.metrics(database, names=("dram__bytes_read.sum",))["value"].tolist() == [3e6]
