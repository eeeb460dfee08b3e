"""The own profile table, the templates, and the guide that describes both."""

from __future__ import annotations

from pathlib import Path

import pytest
from opening import load_into, opened, written

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.profiles import OwnProfiles, metric
from analysis.ingest.formats.own.templates import CORUNS, PROFILES, TEMPLATES, Template, column_table
from analysis.settings import asset
from analysis.store.database import Database
from analysis.store.queries import coruns, profiles, sources

_HEADER = (
    "workload,gpu,kernel,grid,block,invocations,duration_us,solo_throughput,unit,peak_memory_mib,"
    "DRAM [%],stall_wait,note"
)
_TABLE = f"""{_HEADER}
resnet50_bs64,A100,gemm,"(1, 1, 1)","(2, 1, 1)",10,5.5,,,,40,12.5,first
resnet50_bs64,A100,"void bn<float, 4>(int)",,,,2,,,,80,n/a,
resnet50_bs64,A100,,,,,,100,it/s,2000,55,,whole
"""


def test_a_small_table(database: Database, tmp_path: Path) -> None:
    parsed = load_into(database, OwnProfiles(), written(tmp_path, "own.csv", _TABLE))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.warnings) == (3, 3, ())
    assert parsed.report["columns_not_read"] == ["note"]
    kernels = profiles.kernels(database)
    assert kernels["kernel"].tolist() == ["gemm", "void bn<float, 4>(int)"]
    assert kernels["duration_ns"].tolist() == [5500, 2000]
    assert kernels["invocations"].tolist() == [10, 1]
    assert kernels["line"].tolist() == [2, 3]
    stalls = profiles.stall_metrics(database)
    assert stalls[["stall_family", "reason", "value"]].values.tolist() == [["per_warp_active", "wait", 12.5]]
    assert profiles.metrics(database, names=("DRAM",))["value"].tolist() == [40, 80]
    features = coruns.features(database)
    assert features[["name", "value", "unit"]].values.tolist() == [["DRAM", 55, "%"]]
    solos = coruns.solos(database)
    assert solos[["value", "unit", "peak_memory_mib"]].values.tolist() == [[100, "it/s", 2000]]


def test_wrong_rows_cost_themselves(database: Database, tmp_path: Path) -> None:
    text = _TABLE + (
        "resnet50_bs64,A100,k,,,0,5,,,,1,1,\nresnet50_bs64,,k,,,1,5,,,,1,1,\n,A100,k,,,1,5,,,,1,1,\n"
        "resnet50_bs64,A100,,,,,,90,it/s,,,,\nresnet50_bs64,A100,k,,,1,5,,,,1,high,\nvgg,A100,,,,,,,,,,,\n"
    )
    parsed = load_into(database, OwnProfiles(), written(tmp_path, "own.csv", text))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (9, 3, 6)
    rejected = sources.rejected_rows(database, 1).set_index("line")
    assert rejected["column"].fillna("row").tolist() == [
        "invocations", "gpu", "workload", "workload", "stall_wait", "row",
    ]  # fmt: skip
    assert len(profiles.kernels(database)) == 2


def test_the_gpu_may_come_from_the_user(tmp_path: Path) -> None:
    text = "model,batch_size,kernel,duration_us\nresnet50,64,k,1\n"
    with pytest.raises(InputRefusedError, match="gpu is empty"):
        OwnProfiles().parse(written(tmp_path, "own.csv", text), Hints())
    parsed = OwnProfiles().parse(written(tmp_path, "own.csv", text), Hints(gpu="T4"))
    assert parsed.frames["kernel"][["workload", "gpu"]].values.tolist() == [["resnet50_bs64", "T4"]]


@pytest.mark.parametrize(
    ("column", "name", "unit", "reason"),
    [
        ("stall_wait", "smsp__warp_issue_stalled_wait_per_warp_active.pct", "%", "wait"),
        (
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
            "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", None, "barrier",
        ),
        ("smsp__average_warps_issue_stalled_barrier_per_issue_active.max_rate",
         "smsp__average_warps_issue_stalled_barrier_per_issue_active.max_rate", None, None),
        ("DRAM throughput (GB/s)", "DRAM throughput", "GB/s", None),
        ("occupancy", "occupancy", None, None),
    ],
)  # fmt: skip
def test_metric_columns(column: str, name: str, unit: str | None, reason: str | None) -> None:
    found = metric(column)
    assert (found.name, found.unit, found.reason) == (name, unit, reason)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_template_loads_as_it_is(database: Database, tmp_path: Path, template: Template) -> None:
    form = {"own-coruns": OwnCoruns(), "own-profiles": OwnProfiles()}[template.name]
    path = tmp_path / "template.parquet"
    path.write_bytes(template.parquet())
    for file in (written(tmp_path, template.file_name, template.csv()), opened(path)):
        parsed = load_into(database, form, file)
        assert (parsed.rows_loaded, parsed.rows_rejected, parsed.warnings) == (len(template.rows), 0, ())


def test_templates_are_told_apart(tmp_path: Path) -> None:
    for template in TEMPLATES:
        file = written(tmp_path, template.file_name, template.csv())
        assert [OwnCoruns().sniff(file), OwnProfiles().sniff(file)] == [template is CORUNS, template is PROFILES]


def test_the_guide_lists_every_column() -> None:
    text = asset("data", "guide", "own-tables.md").read_text(encoding="utf-8")
    for template in TEMPLATES:
        assert column_table(template.columns) in text, f"write the table of {template.name} anew with column_table"
