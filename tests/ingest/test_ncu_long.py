"""The long form of Nsight Compute in every age and with every oddity, on files written here."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from ncu_files import ERAS, PREAMBLE, TOTAL, Row, long_form, per_warp, profile_rows, stall

from analysis.ingest.account import account
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import ImportReport, import_file
from analysis.store.database import Database
from analysis.store.queries import profiles, sources


def load(database: Database, folder: Path, content: bytes, name: str = "bert_bs8_A100.csv") -> ImportReport:
    path = folder / name
    path.write_bytes(content)
    report = import_file(database, path, hints=Hints(workload="bert"))
    assert report.rows_read == report.rows_loaded + report.rows_rejected
    if report.status == "loaded":
        stored = sources.sources(database).iloc[0]
        rows = database.scalar("SELECT count(*) FROM kernel_metric WHERE source_id = ?", [report.source_id])
        rules = database.scalar("SELECT count(*) FROM kernel_rule WHERE source_id = ?", [report.source_id])
        assert rows + rules + sum(report.set_aside.values()) == report.rows_loaded == stored["rows_loaded"]
        assert len(sources.rejected_rows(database, report.source_id or 0)) >= report.rows_rejected
    return report


@pytest.mark.parametrize("era", sorted(ERAS))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_age_gives_the_same_profile(database: Database, tmp_path: Path, era: int, end: str) -> None:
    report = load(database, tmp_path, long_form(profile_rows(), era=era, before=PREAMBLE, end=end))
    assert report.error is None
    assert (report.format, report.rows_read, report.launches, report.kernels) == ("ncu-long", 21, 3, 1)
    assert report.report["era"].startswith(f"{era} columns")
    assert report.report["lines_skipped"] == 4
    assert report.stall_reasons == ["barrier", "long_scoreboard", "selected", "wait"]
    assert report.gpus == ["A100"]
    kernels = profiles.kernels(database)
    assert kernels["duration_ns"].tolist() == [10250.0, 11250.0, 12250.0]
    assert set(kernels["short_name"]) == {"gemm"}
    assert kernels["workload"].unique().tolist() == ["bert"]
    assert kernels["line"].tolist() == [6, 13, 20]
    stalls = profiles.stall_metrics(database)
    assert stalls.groupby("kernel_id")["value"].sum().tolist() == [8.0, 8.0, 8.0]
    read = profiles.metrics(database, names=("dram__bytes_read.sum",))
    assert read["value"].tolist() == pytest.approx([25.17e6] * 3)
    assert set(read["unit"]) == {"byte"}
    # In tables with rules the rows of metrics are shorter; cells of NVTX ranges hold quotes.
    assert report.report["reader"] == ("mixed" if era >= 18 else "fast")


def test_regular_and_exact_reader_agree(tmp_path: Path) -> None:
    content = long_form(profile_rows(5), before=PREAMBLE, end="\r\n")
    blank_line_in_the_middle = content.replace(b'"2","4711"', b'\r\n"2","4711"', 1)
    frames = []
    for number, text in enumerate((content, blank_line_in_the_middle)):
        with Database(tmp_path / f"{number}.duckdb") as own:
            report = load(own, tmp_path, text, f"{number}.csv")
            assert report.report["reader"] == ("fast", "mixed")[number]
            frames.append(
                own.query("SELECT kernel_id, section, metric, unit, value, family, reason FROM kernel_metric")
            )
    pd.testing.assert_frame_equal(frames[0], frames[1])


def test_output_around_and_between_rows_is_skipped_and_told(database: Database, tmp_path: Path) -> None:
    content = long_form(
        profile_rows(), before=PREAMBLE, after=["==PROF== Report: x.ncu-rep", "done, accuracy 0.93", ""]
    )
    middle = content.replace(b'"1","4711"', b'epoch 1, loss 1.9\n==WARNING== slow\n"1","4711"', 1)
    report = load(database, tmp_path, middle)
    assert (report.rows_read, report.rows_rejected, report.report["lines_skipped"]) == (21, 0, 8)


def test_byte_order_mark_semicolons_and_utf16(tmp_path: Path) -> None:
    text = long_form(profile_rows(), before=PREAMBLE, end="\r\n")
    forms = {
        "bom": b"\xef\xbb\xbf" + text,
        "utf16": text.decode().encode("utf-16"),
        "semicolon": long_form(profile_rows(), delimiter=";"),
        "coloured": text.replace(b"epoch 0", b"\x1b[36mepoch\x1b[39m 0"),
        "progress": text.replace(b"epoch 0, loss 2.31\n", b"\r 10%|#  |\r 90%|###|\r"),
    }
    for name, content in forms.items():
        with Database(tmp_path / f"{name}.duckdb") as own:
            report = load(own, tmp_path, content, f"{name}.csv")
            assert (name, report.error, report.rows_read, report.launches) == (name, None, 21, 3)
            assert profiles.stall_metrics(own)["value"].sum() == 24.0


def test_rules_carry_the_top_reason(database: Database, tmp_path: Path) -> None:
    words = (
        "On average, each warp spends 4.2 cycles being stalled waiting for sibling warps at a CTA barrier. Divide the "
        "work evenly. This stall type represents about 31.8% of the total average of 13.3 cycles between issuing two."
    )
    rule = Row(0, section="WarpStateStats", rule=("CPIStall", "OPT", words, "global", "31.78"))
    advice = Row(0, section="Occupancy", rule=("TheoreticalOccupancy", "INF", 'Say ""more"", please', "", ""))
    report = load(database, tmp_path, long_form([Row(0, "Duration", "1,056.06", "us"), rule, advice], era=20))
    assert (report.rows_read, report.rows_rejected, report.stall_reasons) == (3, 0, [])
    assert report.report["top_reasons_from_rules"] == ["barrier"]
    assert any("top one that the rules name" in text and "ncu --csv" in text for text in report.warnings)
    rules = profiles.rules(database)
    assert rules["top_reason"].tolist()[:1] == ["barrier"]
    assert rules["top_share"].tolist()[0] == 31.8
    assert profiles.kernels(database)["duration_ns"].tolist() == [1056060.0]


def test_suffixes_never_count_twice(database: Database, tmp_path: Path) -> None:
    rows = [
        Row(0, stall("wait", "max_rate"), "1"),
        Row(0, stall("wait", "pct"), "225.00"),
        Row(0, stall("wait", "ratio"), "2.25", "inst"),
        Row(0, stall("drain", "max_rate"), "1"),
        Row(0, stall("barrier", "pct"), "40.00"),
        Row(0, "Stall Wait", "2.25", "inst", section="Warp State Statistics"),
        Row(0, "smsp__average_warps_issue_stalled_mio_throttle_pipe_mio_per_issue_active.ratio", "9", "inst"),
    ]
    report = load(database, tmp_path, long_form(rows))
    assert report.set_aside == {"max_rate": 2}
    assert report.stall_reasons == ["barrier", "wait"]
    stalls = profiles.stall_metrics(database).set_index("reason")
    assert stalls["value"].to_dict() == {"wait": 2.25, "barrier": 0.4}  # the percentage alone is taken to a ratio
    assert stalls.at["wait", "metric"] == stall("wait")
    repeated = database.query("SELECT metric FROM kernel_metric WHERE family IS NULL AND reason = 'wait' ORDER BY line")
    assert repeated["metric"].tolist() == [stall("wait", "pct"), "Stall Wait"]


def test_a_missing_value_gives_way_to_another_suffix(database: Database, tmp_path: Path) -> None:
    load(database, tmp_path, long_form([Row(0, stall("wait"), "n/a"), Row(0, stall("wait", "pct"), "50")]))
    assert profiles.stall_metrics(database)["value"].tolist() == [0.5]


def test_misspelt_and_missing_metrics_are_named(database: Database, tmp_path: Path) -> None:
    rows = [Row(n, per_warp("math_throttle", "avg"), "n/a") for n in range(2)]
    rows += [Row(n, per_warp("wait"), "12.5", "%") for n in range(2)]
    rows += [Row(0, "flop_count_sp.sum", "n/a"), Row(0, "launch__func_cache_config", "CachePreferNone")]
    report = load(database, tmp_path, long_form(rows))
    assert report.stall_reasons == ["wait"]
    assert report.report["not_available"] == [
        {"metric": per_warp("math_throttle", "avg"), "rows": 2, "nearest": per_warp("math_pipe_throttle")},
        {"metric": "flop_count_sp.sum", "rows": 1, "nearest": None},
    ]
    stored = database.query("SELECT value, text FROM kernel_metric WHERE text IS NOT NULL ORDER BY line")
    assert stored["value"].isna().all()
    assert stored["text"].tolist() == ["n/a", "n/a", "n/a", "CachePreferNone"]


def test_accounted_share_is_told(database: Database, tmp_path: Path) -> None:
    rows = [Row(0, stall("wait"), "75.6"), Row(0, TOTAL, "100"), Row(1, stall("wait"), "99"), Row(1, TOTAL, "100")]
    report = load(database, tmp_path, long_form(rows))
    assert report.report["accounted"]["lowest"] == pytest.approx(75.6)
    assert report.report["accounted"]["launches_below_95"] == 1
    assert any("1 of 2 launches" in text for text in report.warnings)


def test_units_change_from_row_to_row(database: Database, tmp_path: Path) -> None:
    rows = [
        Row(0, "dram__bytes_read.sum", "25.17", "Mbyte"),
        Row(1, "dram__bytes_read.sum", "512.00", "Kbyte"),
        Row(0, "Memory Throughput", "23.97", "%", section="GPU Speed Of Light Throughput"),
        Row(0, "Memory Throughput", "1.2", "Gbyte/s", section="Memory Workload Analysis"),
        Row(0, "SM Frequency", "1.13", "cycle/nsecond"),
        Row(0, "Elapsed Cycles", "63,779", "cycle"),
    ]
    report = load(database, tmp_path, long_form(rows))
    assert report.report["units_converted"]["dram__bytes_read.sum"] == {"Mbyte": 1, "Kbyte": 1}
    assert report.report["labels_in_two_sections"] == ["Memory Throughput"]
    stored = database.query("SELECT section, metric, unit, value FROM kernel_metric ORDER BY line")
    assert stored["value"].tolist() == pytest.approx([25.17e6, 512e3, 23.97, 1.2e9, 1.13e9, 63779])
    assert stored["unit"].tolist() == ["byte", "byte", "%", "byte/s", "hz", "cycle"]
    # Without a duration, cycles over the clock; nothing where there is neither.
    assert profiles.kernels(database)["duration_ns"].fillna(-1).tolist() == pytest.approx([63779 / 1.13, -1])


@pytest.mark.parametrize(
    ("values", "numbers", "decimal", "guessed"),
    [
        (["63,779", "58,748.42", "0"], [63779.0, 58748.42, 0.0], ".", False),
        (["9,00", "1.234,5", "7"], [9.0, 1234.5, 7.0], ",", False),
        (["0,435", "12"], [0.435, 12.0], ",", False),
        (["1,234", "5"], [1234.0, 5.0], ".", True),
        (["1,234,567"], [1234567.0], ".", False),
    ],
)
def test_separators_are_decided_for_the_file_and_said(
    database: Database, tmp_path: Path, values: list[str], numbers: list[float], decimal: str, guessed: bool
) -> None:
    rows = [Row(number, "sm__cycles_active.avg", value, "cycle") for number, value in enumerate(values)]
    report = load(database, tmp_path, long_form(rows))
    assert database.query("SELECT value FROM kernel_metric ORDER BY line")["value"].tolist() == numbers
    assert report.report["separators"]["decimal"] == decimal
    assert report.report["separators"]["guessed"] == guessed
    assert any("nothing in the file decides" in text.lower() for text in report.warnings) == guessed


def test_wrong_rows_are_rejected_with_line_column_and_reason(database: Database, tmp_path: Path) -> None:
    rows = profile_rows()
    content = long_form(rows).decode().splitlines()
    content[3] = content[3].replace('"2.25"', '"2.2x"')  # no number
    content[5] = content[5].replace('"0","4711"', '"zero","4711"', 1)  # no launch
    content[9] = content[9].rsplit(",", 2)[0]  # too short
    content[11] = content[11].replace('"8.0"', '"8.0')  # a quote is lost
    content[13] = content[13].replace("void gemm", "void gemv")  # another kernel
    report = load(database, tmp_path, ("\n".join(content) + "\n").encode())
    rejected = sources.rejected_rows(database, report.source_id or 0)
    assert rejected["line"].tolist() == [4, 6, 10, 12, 14]
    assert rejected["column"].fillna("").tolist() == ["Metric Value", "ID", "", "", "Kernel Name"]
    assert report.rows_rejected == 5
    assert report.rows_read == 21


def test_one_export_appended_to_another(database: Database, tmp_path: Path) -> None:
    content = long_form(profile_rows(2), era=15, before=PREAMBLE) + long_form(profile_rows(2), era=12, before=PREAMBLE)
    report = load(database, tmp_path, content)
    assert (report.rows_read, report.rows_rejected, report.launches) == (28, 0, 4)
    assert database.scalar("SELECT count(*) FROM kernel WHERE cc IS NULL") == 2


def test_launches_of_one_name_stay_apart_by_size(database: Database, tmp_path: Path) -> None:
    rows = [
        Row(0, per_warp("wait"), "1", "%", more={"Grid Size": "(25, 2, 1)"}),
        Row(1, per_warp("wait"), "2", "%", more={"Grid Size": "(25, 8, 1)"}),
        Row(0, per_warp("wait"), "3", "%", more={"Process ID": "99"}),
    ]
    report = load(database, tmp_path, long_form(rows))
    assert (report.launches, report.kernels) == (3, 1)
    assert profiles.kernels(database)["grid"].tolist() == ["(25, 2, 1)", "(25, 8, 1)", "(64, 2, 1)"]


def test_the_gpu_comes_from_the_cc_the_output_or_the_user(tmp_path: Path) -> None:
    rows = [Row(0, per_warp("wait"), "1", "%", more={"CC": "12.0"})]
    said = ["device: NVIDIA GeForce RTX 5070 (sm_120), 48 SMs"]
    cases = [
        (long_form(rows), "run.csv", None, ["unknown"], "Compute capability 12.0 fits"),
        (long_form(rows, before=said), "run.csv", None, ["RTX 5070"], "program's own output"),
        (long_form(rows), "run_V100.csv", None, ["unknown"], "ran on compute capability 12.0"),
        (long_form(rows), "run_RTX_5090.csv", None, ["RTX 5090"], "file's name"),
        (long_form(rows), "run.csv", "rtx 5080", ["RTX 5080"], None),
        (long_form(rows, era=12), "run.csv", None, ["unknown"], "does not say which GPU"),
    ]
    for number, (content, name, gpu, expected, words) in enumerate(cases):
        path = tmp_path / name
        path.write_bytes(content)
        with Database(tmp_path / f"{number}.duckdb") as own:
            report = import_file(own, path, hints=Hints(gpu=gpu))
            assert report.gpus == expected
            assert words is None or any(words in text for text in report.warnings)


@pytest.mark.parametrize(("name", "told"), [("bert_mps.csv", True), ("a-colocated.csv", True), ("compsys.csv", False)])
def test_profiles_that_claim_to_be_of_two_jobs_are_flagged(tmp_path: Path, name: str, told: bool) -> None:
    path = tmp_path / name
    path.write_bytes(long_form(profile_rows()))
    with Database(None) as own:
        warnings = import_file(own, path).warnings
    assert any("another job ran meanwhile" in text for text in warnings) is told


def test_a_second_table_with_more_columns_keeps_its_rules(database: Database, tmp_path: Path) -> None:
    rule = Row(3, section="WarpStateStats", rule=("CPIStall", "OPT", "Words", "global", "1"))
    second = [Row(3, *other) for other in [("gpu__time_duration.sum", "9.25", "us"), (stall("wait"), "2.25", "inst")]]
    content = long_form(profile_rows()) + long_form([*second, rule], era=20)
    report = load(database, tmp_path, content)
    assert (report.rows_read, report.rows_rejected, report.launches) == (24, 0, 4)
    assert database.query("SELECT rule, text FROM kernel_rule").to_numpy().tolist() == [["CPIStall", "Words"]]


def test_a_row_of_nothing_is_rejected_with_its_text(database: Database, tmp_path: Path) -> None:
    report = load(database, tmp_path, long_form([*profile_rows(), Row(2)]))
    assert report.rows_rejected == 1
    assert '"2","4711","void gemm<float, 4>(const float *, int)"' in str(
        sources.rejected_rows(database, report.source_id or 0)["text"].iloc[0]
    )


@pytest.mark.parametrize("large", [False, True])
def test_a_metric_that_stands_twice_counts_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """The first value counts, wherever it is asked for; the other is set aside, and said where it differs."""
    monkeypatch.setattr("analysis.ingest.text.repeats.WORTH", 1 if large else 1 << 40)
    rows = profile_rows(6)
    same = Row(1, "dram__bytes_read.sum", "25.17", "Mbyte")
    other = Row(1, stall("wait"), "3.33", "inst")
    longer = Row(1, "gpu__time_duration.sum", "99", "us")
    first_lacks = Row(4, stall("barrier"), "n/a", "inst")
    at = next(place for place, row in enumerate(rows) if row.launch == 4 and row.metric == stall("barrier"))
    content = long_form([*rows[:14], same, other, longer, *rows[14:at], first_lacks, *rows[at:]])
    report = load(database, tmp_path, content)
    assert report.set_aside == {"printed_again": 4}
    assert report.rows_rejected == 0
    said = [warning for warning in report.warnings if "stand twice with different values" in warning]
    assert said == [
        f"2 metrics stand twice with different values in one launch, such as {stall('wait')} in lines 11 and 17: the "
        "first value counts, the others were set aside."
    ]
    kernels = profiles.kernels(database)
    assert kernels["duration_ns"].tolist() == [10250.0, 11250.0, 12250.0, 13250.0, 14250.0, 15250.0]
    assert profiles.stall_metrics(database).groupby("kernel_id")["value"].sum().tolist() == [8.0] * 6
    aside = sources.set_aside_rows(database, report.source_id or 0)
    assert f"{stall('wait')}: 3.33" in aside["text"].tolist()


def test_metrics_without_a_value_in_some_rows_are_listed(database: Database, tmp_path: Path) -> None:
    content = long_form(profile_rows()).replace(b'"25.17"', b'"n/a"', 1)
    report = load(database, tmp_path, content)
    assert report.report["partly_missing"] == [{"metric": "dram__bytes_read.sum", "rows": 1, "of": 3}]
    assert ("Partly without a value", "dram__bytes_read.sum in 1 of 3 rows") in account(report.model_dump())


def test_a_row_without_its_quotes_is_rejected_and_no_other_output(database: Database, tmp_path: Path) -> None:
    lines = long_form(profile_rows()).decode().splitlines()
    lines[9] = lines[9].replace('"', "")
    report = load(database, tmp_path, ("\n".join(lines) + "\n").encode())
    assert (report.rows_read, report.rows_rejected) == (21, 1)
    assert report.report["lines_skipped"] == 0
    assert sources.rejected_rows(database, report.source_id or 0)["line"].tolist() == [10]


@pytest.mark.parametrize("large", [False, True])
def test_a_file_that_ends_before_its_last_value_is_cut_off(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr("analysis.ingest.text.repeats.WORTH", 1 if large else 1 << 40)
    content = long_form(profile_rows(6))
    cut = content[: content.rindex(b'"25.17"')]
    report = load(database, tmp_path, cut)
    assert report.status == "rejected"
    assert "cut off" in str(report.error)
    # A table with rules ends its rows of metrics in an empty cell.
    whole = long_form(profile_rows(6), era=20).rstrip(b"\n")
    assert whole.endswith(b",")
    assert load(database, tmp_path, whole).rows_read == 42


def test_reasons_that_exceed_their_total_are_told(database: Database, tmp_path: Path) -> None:
    content = long_form(profile_rows(3)).replace(b'"8.00"', b'"4.00"', 1)
    report = load(database, tmp_path, content)
    assert [text for text in report.warnings if "more than the warp cycles" in text] == [
        "In 1 of 3 launches the stall reasons add up to more than the warp cycles that they are a part of (up to 200 "
        "%): reasons and total do not belong together."
    ]


@pytest.mark.parametrize("text", ["1 025.17", "1'025.17", "1\u202f025.17"])
def test_blanks_between_thousands_are_read_and_said(database: Database, tmp_path: Path, text: str) -> None:
    content = long_form(profile_rows()).replace(b'"25.17"', f'"{text}"'.encode(), 1)
    report = load(database, tmp_path, content)
    assert report.rows_rejected == 0
    read = profiles.metrics(database, names=("dram__bytes_read.sum",))["value"].tolist()
    assert read == pytest.approx([1025.17e6, 25.17e6, 25.17e6])
    assert [said for said in report.warnings if "separating thousands" in said] == [
        f"Blanks and apostrophes between digits were read as separating thousands, as in {text!r}."
    ]
