"""DCGM's figures, in every form in which operators have them, and Slurm's accounts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_files import ENCODINGS, ENDS, imported, parsed, written

from analysis.ingest.formats.shared import samples as telemetry
from analysis.ingest.formats.telemetry.dcgm_fields import blanked
from analysis.ingest.importer import import_file
from analysis.interference.checks import RULES
from analysis.store.database import Database

FIELD = "DCGM_FI_PROF_SM_ACTIVE"


def samples(database: Database, name: str) -> pd.DataFrame:
    return database.query(
        "SELECT t.*, w.name AS workload FROM telemetry t LEFT JOIN workload w USING (workload_id) WHERE t.name = ? "
        "ORDER BY measured_at, entity, device",
        [name],
    )


def sample(value: object, field: str = FIELD, gpu: str = "0", pod: str = "", more: str = "") -> str:
    return f'{field}{{gpu="{gpu}",UUID="GPU-1",modelName="NVIDIA H100 80GB HBM3",pod="{pod}"{more}}} {value}'


def test_blank_numbers() -> None:
    for base in (9223372036854775792, 2147483632, 140737488355328):
        for place in range(4):
            values, why = blanked(np.array([1.0, float(base + place)]))
            assert np.isnan(values).tolist() == [False, True], base + place
            assert why is not None
            assert why[0] is None
    assert blanked(np.array([2147483631.0, 0.93]))[1] is None


def test_exporter(database: Database, tmp_path: Path) -> None:
    lines = [
        "# HELP DCGM_FI_PROF_SM_ACTIVE x", "# TYPE DCGM_FI_PROF_SM_ACTIVE gauge", sample(0.93, pod="train-a"),
        sample(1.29, gpu="1", more=',namespace="a\\"b,}"'), sample("9223372036854775794", "DCGM_FI_DEV_MEMORY_TEMP"),
        "go_goroutines 12", sample("what"), "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).",
        sample(40, "DCGM_FI_DEV_GPU_UTIL") + " 1767454613507",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "x.prom", lines))
    assert (report.format, report.rows_read, report.rows_rejected) == ("dcgm-exporter", 7, 1)
    assert report.set_aside == {"other_metric": 1, "list_of_fields": 1}
    active = samples(database, FIELD)
    assert sorted(active["value"]) == [0.93, 1.29]
    assert active["workload"].dropna().tolist() == ["train-a"]
    blank = samples(database, "DCGM_FI_DEV_MEMORY_TEMP").iloc[0]
    assert np.isnan(blank["value"])
    assert "no value" in blank["reason"]
    assert str(samples(database, "DCGM_FI_DEV_GPU_UTIL")["measured_at"][0])[:19] == "2026-01-03 15:36:53"


@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(0, 2), st.just(None)), min_size=1, max_size=9), end=ENDS, encoding=ENCODINGS,
    instance=st.booleans(), old=st.booleans(),
)  # fmt: skip
def test_dcgmi_dmon_survives(values: list[float | None], end: str, encoding: str, instance: bool, old: bool) -> None:
    head = ["# Entity  SMACT  DRAMA", "      Id"] if old else ["#Entity   SMACT        DRAMA       ", "ID    "]
    name = "GPU-I 21" if instance else "GPU 0"
    rows = [f"{name}     {'N/A' if value is None else repr(value)}        0.000" for value in values]
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(written(Path(folder) / "d-H100.txt", [*head, *rows, *head, *rows[:1]], end, encoding))
    frame = got.frames["telemetry"].to_pandas()
    active = frame[frame["name"] == FIELD]
    expected = [np.nan if value is None else value for value in [*values, values[0]]]
    assert (got.rows_read, got.rows_rejected) == (len(expected), 0)
    assert active["value"].tolist() == pytest.approx(expected, nan_ok=True)
    assert set(active["entity" if instance else "device"]) == {name}


def answer(series: list[dict]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})


def test_prometheus(database: Database, tmp_path: Path) -> None:
    labels = {"__name__": FIELD, "gpu": "0", "Hostname": "n1", "modelName": "Tesla T4", "exported_pod": "job-1"}
    series = [
        {"metric": labels, "values": [[1767454613, "0.5"], [1767454628, "NaN"], [1767454643, "bad"], [1]]},
        {"metric": {**labels, "exported_pod": "job-2"}, "values": [[1767454613, "0.5"]]},
        {"metric": {"gpu": "0"}, "values": [[1767454613, "7"]]},
    ]  # fmt: skip
    path = tmp_path / "q.json"
    path.write_text(answer(series))
    report = imported(database, path)
    assert (report.format, report.rows_read, report.rows_rejected) == ("prometheus-json", 6, 2)
    active = samples(database, FIELD)
    assert active["workload"].tolist() == ["job-1", "job-2", "job-1"]
    assert active["device"].unique().tolist() == ["n1/0"]
    assert active["gpu"].unique().tolist() == ["T4"]
    assert any("no name" in text for text in report.warnings)
    assert "cut off" in str(import_file(database, _written(tmp_path / "cut.json", path.read_text()[:-30])).error)
    empty = import_file(database, _written(tmp_path / "none.json", answer([])))
    assert "no series" in str(empty.error)


def test_milliseconds_of_unix_time_are_kept(database: Database, tmp_path: Path) -> None:
    labels = {"__name__": FIELD, "gpu": "0", "modelName": "Tesla T4"}
    path = _written(tmp_path / "q.json", answer([{"metric": labels, "values": [[1709633487.123, "1"]]}]))
    imported(database, path)
    moment = pd.Timestamp("2024-03-05T10:11:27.123")
    assert database.query("SELECT measured_at FROM telemetry")["measured_at"].tolist() == [moment]
    times, wrong = telemetry.moments(["1709633487.123", "1709633487123"])
    assert times.tolist() == [moment.to_pydatetime()] * 2
    assert not wrong.any()


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@settings(max_examples=15, deadline=None)
@given(table=st.lists(st.lists(st.floats(0, 100), min_size=2, max_size=5), min_size=1, max_size=4))
def test_prometheus_survives(table: list[list[float]]) -> None:
    series = [
        {"metric": {"__name__": FIELD, "gpu": str(place)}, "values": [[100 + t, repr(v)] for t, v in enumerate(row)]}
        for place, row in enumerate(table)
    ]
    with tempfile.TemporaryDirectory() as folder:
        got = parsed(_written(Path(folder) / "q.json", answer(series)))
    assert got.frames["telemetry"].column("value").to_pylist() == [value for row in table for value in row]
    assert got.rows_read == sum(map(len, table))


def test_grafana(database: Database, tmp_path: Path) -> None:
    one, two = (f'"{FIELD}{{gpu=""{gpu}"", modelName=""Tesla T4"", pod=""p{gpu}""}}"' for gpu in (0, 1))
    lines = ["sep=,", f'"Time",{one},{two}', "2026-01-03 15:36:53,0.5,", "2026-01-03 15:37:08,60%,0.25",
             "2026-01-03 15:37:23,null,x", "never,1,1"]  # fmt: skip
    report = imported(database, written(tmp_path / "g.csv", lines))
    assert (report.format, report.rows_read, report.rows_rejected) == ("grafana-csv", 4, 2)
    active = samples(database, FIELD)
    assert active["workload"].tolist() == ["p0", "p0", "p1"]
    assert active["value"].tolist() == [0.5, 60, 0.25]


def test_sacct(database: Database, tmp_path: Path) -> None:
    lines = [
        "JobID|JobName|AllocTRES|End|NodeList|TRESUsageInAve|TRESUsageInMax|",
        "7|resnet50_bs64|cpu=4,gres/gpu:a100=1|2026-01-03T15:36:53|n1||",
        "7.batch|batch|gres/gpu:a100=1|2026-01-03T15:36:53|n1|cpu=1-00:10:00,gres/gpumem=5G,gres/gpuutil=83|mem=12K|",
        "8.0|bert|cpu=4|Unknown|n1|gres/gpuutil=abc||", "9|x|cpu=1|short",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "s.txt", lines))
    assert (report.format, report.rows_read, report.rows_rejected) == ("slurm-sacct", 4, 2)
    # Without usage the job still tells what it was given.
    assert report.set_aside == {}
    given = samples(database, "AllocTRES gres/gpu").set_index("entity")["value"]
    assert given.to_dict() == {"7": 1, "7.batch": 1}
    use = samples(database, "TRESUsageInAve gres/gpuutil").iloc[0]
    assert (use["value"], use["unit"], use["workload"], use["entity"], use["gpu"]) == (
        83, "%", "resnet50_bs64", "7.batch", "A100",
    )  # fmt: skip
    assert samples(database, "TRESUsageInAve gres/gpumem")["value"][0] == 5 * 2**30
    assert samples(database, "TRESUsageInAve cpu")["value"][0] == 87000


def test_sacct_keeps_who_ran_how_it_ended_and_what_was_given(database: Database, tmp_path: Path) -> None:
    lines = ["JobID|JobName|User|State|Elapsed|AllocTRES|TRESUsageInAve", "3|bert|ada|FAILED|01:30:00|cpu=8,mem=64G,"
             "gres/gpu=2,gres/gpu:h100=2,node=1|", "4|vit|bob|CANCELLED by 7|||"]  # fmt: skip
    report = imported(database, written(tmp_path / "s.txt", lines))
    assert (report.rows_read, report.rows_rejected, report.set_aside) == (2, 0, {"no_usage": 1})
    assert (report.report["users"], report.report["states"]) == ({"ada": 1, "bob": 1}, {"FAILED": 1, "CANCELLED": 1})
    values = {name: samples(database, name).iloc[0] for name in ("AllocTRES gres/gpu", "AllocTRES mem", "Elapsed")}
    assert {name: (row["value"], row["unit"]) for name, row in values.items()} == {
        "AllocTRES gres/gpu": (2, "GPUs"), "AllocTRES mem": (64 * 2**30, "byte"), "Elapsed": (5400, "s"),
    }  # fmt: skip
    assert values["Elapsed"]["entity"] == "3 (ada, FAILED)"


def test_system_metrics_of_trackers(database: Database, tmp_path: Path) -> None:
    wide = ["Step,run_id,_timestamp,system.gpu.0.gpu,system.gpu.1.powerWatts,loss", "0,bert,1767454613,72,250.5,1.5",
            "1,bert,1767454623,75,,1.4", "2,bert,1767454633,broken,251,1.3"]  # fmt: skip
    report = imported(database, written(tmp_path / "w.csv", wide))
    assert (report.format, report.rows_read, report.rows_rejected) == ("tracker-metrics", 3, 1)
    use = samples(database, "gpu")
    assert (use["value"].tolist(), use["device"].tolist(), use["workload"].tolist()) == (
        [72, 75],
        ["0"] * 2,
        ["bert"] * 2,
    )
    assert samples(database, "powerWatts")[["device", "unit"]].values.tolist() == [["1", "W"]]
    long = [
        "key;value;timestamp;step",
        "system/gpu_2_utilization_percentage;40;1767454613000;0",
        "loss;2.5;1767454613000;0",
    ]
    report = imported(database, written(tmp_path / "m.csv", long))
    assert (report.format, report.rows_read, report.set_aside) == ("tracker-metrics", 2, {"no_gpu_metric": 1})
    assert samples(database, "utilization_percentage")[["device", "value", "unit"]].values.tolist() == [
        ["2", 40.0, "%"]
    ]


def test_sacct_sums_over_gpus(database: Database, tmp_path: Path) -> None:
    """The utilisation of a job is the sum over its GPUs: 150 on two of them is no value above its peak."""
    lines = [
        "JobID|JobName|AllocTRES|TRESUsageInAve",
        "1|a|gres/gpu:a100=2|gres/gpuutil=150", "2|b|gres/gpu=1|gres/gpuutil=80",
        "3|c|cpu=1|gres/gpuutil=180", "4|d|gres/gpu=1|gres/gpuutil=140",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "s.txt", lines))
    use = samples(database, "TRESUsageInAve gres/gpuutil").sort_values("entity")
    assert use["unit"].tolist() == ["% of one GPU", "%", "% of one GPU", "%"]
    assert any("sum over the GPUs" in text for text in report.warnings)
    (finding,) = RULES["above-peak"](database, "own")
    assert finding.rows["value"].tolist() == [140.0]
    none = imported(database, written(tmp_path / "n.txt", ["JobID|TRESUsageInAve", "1|cpu=00:50:00,mem=1000K"]))
    assert any("no figure of a GPU" in text and "AccountingStorageTRES" in text for text in none.warnings)


def test_grafana_long_table(database: Database, tmp_path: Path) -> None:
    """Prometheus' series as rows: a time, a value, the name of the counter, and labels."""
    lines = ['"Time","Value","__name__","gpu","pod"']
    lines += [f"2026-01-03 15:36:{second},{second},{FIELD},{gpu},p{gpu}" for second in (10, 11, 12) for gpu in (0, 1)]
    lines += ["2026-01-03 15:36:13,5,up,,", "never,5,x,,", f"2026-01-03 15:36:14,oops,{FIELD},0,p0"]
    report = imported(database, written(tmp_path / "g.csv", lines))
    assert (report.format, report.rows_read, report.rows_rejected) == ("grafana-csv", 9, 2)
    assert report.set_aside == {"other_metric": 1}
    active = samples(database, FIELD).sort_values(["workload", "measured_at"])
    assert active["value"].tolist() == [10, 11, 12] * 2
    assert active["workload"].tolist() == ["p0"] * 3 + ["p1"] * 3
    assert active["device"].tolist() == ["0"] * 3 + ["1"] * 3


def test_dcgmi_stats(database: Database, tmp_path: Path) -> None:
    lines = [
        "Successfully retrieved statistics for job: demo.", "+----------+----------+", "| GPU ID: 0            |",
        "|-----  Execution Stats  -----+----------|", "| Start Time | Wed Mar  9 15:07:34 2016 |",
        "| End Time | Wed Mar  9 15:08:00 2016 |", "| Energy Consumed (Joules) | 1437 |",
        "| Power Usage (Watts) | Avg: 75.6, Max: 130.5, Min: 41 |", "| Due to - Power (%) | 0 |",
        "|        - Thermal (%) | Not Supported |",
        "| Clocks and PCIe Performance | Available per GPU in verbose mode |",
    ]  # fmt: skip
    report = imported(database, written(tmp_path / "j.txt", lines))
    assert (report.format, report.rows_read, report.rows_rejected, report.set_aside) == (
        "dcgmi-stats",
        7,
        0,
        {"text": 1},
    )
    assert samples(database, "Power Usage Max")["value"][0] == 130.5
    energy = samples(database, "Energy Consumed").iloc[0]
    assert (energy["value"], energy["unit"], energy["workload"], energy["device"]) == (1437, "J", "demo", "0")
    assert str(energy["measured_at"]) == "2016-03-09 15:08:00"
    assert samples(database, "Due to - Thermal")["reason"][0] == "Not Supported"
    for number, first in enumerate((["Successfully retrieved process info for job: 42."], [])):
        again = imported(database, written(tmp_path / f"j{number}.txt", [*first, *lines[1:], f"| x | {number} |"]))
        assert again.format == "dcgmi-stats"
        assert any("doesn't say which job" in text for text in again.warnings) == (not first)


def test_real_sample(database: Database, cases: Path) -> None:
    path = cases / "dcgm-exporter-sample.prom"
    report = imported(database, path)
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert (report.rows_read, report.rows_rejected) == (len(lines), 0)
    assert database.scalar("SELECT count(value) FROM telemetry WHERE name = 'DCGM_FI_DEV_MEMORY_TEMP'") == 0
    assert database.scalar("SELECT max(value) FROM telemetry") < 1e6
