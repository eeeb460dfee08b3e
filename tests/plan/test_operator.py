"""An operator with a list of jobs and a day of DCGM, no profile: every job named, memory first, what to measure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from analysis.cli import app
from analysis.errors import InputRefusedError
from analysis.ingest.importer import import_paths
from analysis.plan import planner
from analysis.plan.exports.writing import JOB
from analysis.plan.jobs import JobList, parse_jobs
from analysis.plan.problem import GpuKind, Job, Problem
from analysis.plan.sets import of_matrix
from analysis.plan.survey import COUNTS, survey
from analysis.store.database import Database
from analysis.store.queries import telemetry
from tests.conftest import ROOT, SHARED

#: Pod, namespace, share of time busy, memory in MiB.
CLUSTER = (
    ("bert-0", "team-a", 0.35, 11000), ("resnet-0", "team-a", 0.55, 9000), ("gnn-0", "team-a", 0.15, 6000),
    ("etl-0", "team-b", 0.05, 2000), ("llm-0", "team-b", 0.95, 36000), ("asr-0", "team-b", 0.40, 7000),
)  # fmt: skip


def _series(metric: str, values: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "metric": {"__name__": metric, "gpu": str(number), "modelName": "NVIDIA A100-SXM4-40GB",
                       "UUID": f"GPU-0000000{number}-0000-0000-0000-000000000000", "pod": pod},
            "values": [[1767454613 + 3600 * hour, str(value * (1 if hour == 5 else 0.9))] for hour in range(24)],
        }
        for number, (pod, value) in enumerate(values.items())
    ]  # fmt: skip


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A database with a day of DCGM by pod, and nothing else."""
    series = _series("DCGM_FI_DEV_FB_USED", {pod: memory for pod, _, _, memory in CLUSTER})
    series += _series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", {pod: busy for pod, _, busy, _ in CLUSTER})
    path = tmp_path / "day.json"
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}))
    with Database(tmp_path / "day.duckdb") as database:
        assert [report.status for report in import_paths(database, [path])] == ["loaded"]
    return tmp_path / "day.duckdb"


def _pods() -> str:
    items = [
        {"metadata": {"name": pod, "namespace": owner}, "status": {"phase": "Running"},
         "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
        for pod, owner, _, _ in CLUSTER
    ]  # fmt: skip
    return json.dumps({"kind": "List", "items": items})


def test_a_day_of_dcgm_and_a_list_of_pods(day: Path, tmp_path: Path) -> None:
    listed, out = tmp_path / "pods.json", tmp_path / "out"
    listed.write_text(_pods())
    given = ["plan", "--gpu", "A100-40GB=5", "--jobs", str(listed), "--db", str(day)]
    done = CliRunner().invoke(
        app, [*given, "--export", "dra", "--out", str(out), "--json"], prog_name="stallscope"
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    placed = {job["job"]: job for one in document["placements"] for job in one["jobs"]}
    assert set(placed) | {one["job"] for one in document["refused"]} == {pod for pod, *_ in CLUSTER}
    assert {job["memory_mib"] for job in placed.values()} <= {float(memory) for *_, memory in CLUSTER}
    assert not any(one["verdict"] == "share" for one in document["placements"])  # nobody knows what it would cost
    # Three pairs of one owner leave the other: 5 fit a GPU; the sixth, with the large one, does not.
    assert document["pairs"] == {"measure first": 5, "kept apart": 10}
    assert [one["workloads"] for one in document["measure_next"]] == [
        ["asr-0", "etl-0"], ["bert-0", "gnn-0"], ["gnn-0", "resnet-0"],
    ]  # fmt: skip
    for one in document["measure_next"]:
        assert one["command"].startswith("stallscope capture corun --mechanism mps --workload")
        assert "idle" in one["why"]
    assert any("telemetry" in note for note in document["notes"])
    assert not any("unknown" in note for note in document["notes"])
    pods = [one for one in yaml.safe_load_all((out / "stallscope-dra.yaml").read_text()) if one["kind"] == "Pod"]
    assert {one["metadata"]["annotations"][JOB] for one in pods} == set(placed)
    told = CliRunner().invoke(app, given, prog_name="stallscope").stdout
    assert "5 must be measured first" in " ".join(told.split())


def test_jobs_are_known_by_the_name_that_the_series_have(day: Path) -> None:
    sacct = (
        "JobID|JobName|User|State|AllocTRES\n1|bert|u1|RUNNING|gres/gpu:a100=1\n2|gnn|u1|RUNNING|gres/gpu:a100=1\n"
        "3|stranger|u1|RUNNING|gres/gpu:a100=1\n"
    )
    with Database(day) as database:
        found = planner.make_plan(database, parse_jobs(sacct), (GpuKind("A100-40GB", 3, 40960.0),), draws=3)
    jobs = {job.name: job for job in found.plan.problem.jobs}
    assert (jobs["bert-1"].workload, jobs["bert-1"].memory_mib) == ("bert-0", 11000.0)
    assert jobs["stranger-3"].workload == ""
    assert found.survey.pairs == {"measure first": 1, "kept apart": 2}
    assert any("of 1 of 3 jobs is unknown" in note for note in found.notes)


def test_telemetry_says_peak_and_busy(day: Path) -> None:
    with Database(day) as database:
        table = telemetry.of_workloads(database, "own").set_index("workload")
        assert telemetry.of_workloads(database, "nothing").empty
    assert table.at["llm-0", "peak_memory_mib"] == 36000
    assert table.at["etl-0", "busy"] == pytest.approx(0.05 * (1 + 23 * 0.9) / 24)
    assert set(table["gpu"]) == {"A100-40GB"}


@pytest.mark.skipif(not (SHARED / "placement").is_dir(), reason="the lists that lie beside the project")
def test_the_lists_beside_the_project() -> None:
    sacct = parse_jobs((SHARED / "placement" / "sacct.txt").read_text())
    assert {(job.name, job.gpus) for job in sacct.jobs} == {
        ("bert-1277", 1), ("resnet-1278", 1), ("multi-1279", 8), ("shard-1280", 1),
    }  # fmt: skip
    pods = parse_jobs((SHARED / "placement" / "pods.json").read_text())
    assert {(job.name, job.owner, job.gpus) for job in pods.jobs} == {
        ("bert-0", "team-a", 1), ("resnet-0", "team-b", 1),
    }  # fmt: skip
    openb = parse_jobs((SHARED / "placement" / "openb_pods.csv").read_text())
    assert len(openb.jobs) > 5_000
    assert not any(job.workload for job in openb.jobs)


WANDB = """run,user,_runtime,system.gpu.0.memoryAllocatedBytes,system.gpu.0.gpu,system.gpu.1.gpu
bert,ada,15,8589934592,40,0
bert,ada,30,9663676416,50,0
vit,bo,15,1073741824,3,2
vit,bo,30,1073741824,3,2
cpu,bo,30,,,
"""
MLFLOW_LAST = (
    "run_id,tags.mlflow.runName,tags.mlflow.user,metrics.system/gpu_0_memory_usage_megabytes\nr1,bert,ada,9000\n"
)
MLFLOW_HISTORY = (
    "run_id,key,value\nr1,system/gpu_0_memory_usage_megabytes,9000\nr1,system/gpu_0_memory_usage_megabytes,9500\n"
    "r1,loss,1\nr1,system/gpu_0_utilization_percentage,40\n"
)


def test_runs_of_trackers_are_jobs_and_a_last_sample_is_no_peak() -> None:
    found = parse_jobs(WANDB)
    assert [(job.name, job.owner, job.gpus, job.memory_mib) for job in found.jobs] == [
        ("bert", "ada", 1, 9216.0), ("vit", "bo", 1, 1024.0),
    ]  # fmt: skip
    assert found.source == "runs"
    assert "left out" in found.notes[0]
    last = parse_jobs(MLFLOW_LAST)
    assert (last.jobs[0].name, last.jobs[0].owner) == ("bert", "ada")
    assert last.unknown_memory(last.jobs)
    assert "no peak" in last.notes[0]
    assert parse_jobs(MLFLOW_HISTORY).jobs[0].memory_mib == pytest.approx(9500 * 1e6 / 2**20)
    with pytest.raises(InputRefusedError, match="which run"):
        parse_jobs("_runtime,system.gpu.0.gpu\n1,40\n")


def test_every_pair_of_jobs_is_counted_once() -> None:
    figures = of_matrix("abc", [[1.0, 1.05, 1.6], [1.05, 1.0, 1.1], [1.7, 1.1, 1.0]])
    jobs = (
        Job("a1", "a", "x", memory_mib=10.0), Job("a2", "a", "x", memory_mib=10.0), Job("b", "b", "x", memory_mib=10.0),
        Job("c", "c", "x", memory_mib=10.0), Job("c2", "c", "x"), Job("c3", "c", "y"), Job("w", "c", "x", gpus=2),
    )  # fmt: skip
    found = survey(Problem(jobs, (GpuKind("G", 4, 16_000.0), GpuKind("S", 2, 15.0))), figures)
    assert set(found.pairs) <= set(COUNTS)
    assert sum(found.pairs.values()) == len(jobs) * (len(jobs) - 1) // 2
    # a1 and a2 beside b, b beside c, and the two a beside each other (of_matrix says 1.0); c hurts a.
    assert found.pairs == {"share": 4, "don't": 2, "memory unknown": 4, "kept apart": 11}
    assert found.peaks == ("c",)
    assert not found.proposals
    assert "must not share" in found.in_words()


def test_a_class_has_a_limit_of_its_own(day: Path) -> None:
    listed = parse_jobs("job,workload,owner,class,limit\na,bert-0,x,serving,\nb,gnn-0,x,serving,1.5\nc,etl-0,x,,\n")
    with Database(day) as database:
        found = planner.make_plan(
            database, listed, (GpuKind("A100-40GB", 3, 40960.0),), class_limits={"serving": 1.05}, draws=3
        )
        assert [found.plan.problem.limit_of(job) for job in found.plan.problem.jobs] == [1.05, 1.5, 1.2]
        with pytest.raises(Exception, match="no job is of the class 'batch'"):
            planner.make_plan(database, listed, (GpuKind("A100-40GB", 3, 40960.0),), class_limits={"batch": 2.0})
    assert JobList((), "table").strict


#: Pairs that the worked examples of the guide rest on, on both of their GPUs.
MEASURED = "run_id,gpu,mechanism,workload,slowdown,outcome,peak_memory_mib,memory_kind\n" + "".join(
    f"{run},{gpu},CUDA MPS,{job},{slow},ran,{peak},nvidia-smi\n"
    for run, gpu in enumerate(("A100-40GB", "RTX-4090"))
    for job, slow, peak in (("resnet50_bs32_amp_train", 1.10, 5600), ("bert-base_bs8_amp_train", 1.15, 4600))
)
GUIDE = (ROOT / "data" / "guide" / "placing-jobs.md").read_text(encoding="utf-8")


def _example(title: str) -> str:
    section = GUIDE.partition(f"## {title}\n")[2]
    return section.partition("```sh\n")[2].partition("```")[0]


@pytest.mark.parametrize(
    ("title", "made"),
    [
        ("Kubernetes", "stallscope-dra.yaml"),
        ("Slurm", "gres.conf.part"),
        ("A workstation with one GPU", "gpu-rtx-4090-0*.sh"),
    ],
)
def test_the_worked_examples_of_the_guide_work(
    title: str, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pairs.csv").write_text(MEASURED)
    with Database(tmp_path / "guide.duckdb") as database:
        assert [report.status for report in import_paths(database, [tmp_path / "pairs.csv"])] == ["loaded"]
    monkeypatch.chdir(tmp_path)
    names = ("resnet50_bs32_amp_train", "bert-base_bs8_amp_train")
    pods = [
        {"metadata": {"name": f"pod-{number}", "namespace": "me", "labels": {"stallscope.io/workload": name}},
         "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}
        for number, name in enumerate(names)
    ]  # fmt: skip
    Path("pods.json").write_text(json.dumps({"items": pods}))
    rows = [f"{number}|{name}|me|RUNNING|01:00:00|gres/gpu:a100=1||" for number, name in enumerate(names)]
    head = "JobID|JobName|User|State|Elapsed|AllocTRES|TRESUsageInAve|TRESUsageInMax"
    Path("jobs.txt").write_text("\n".join([head, *rows]) + "\n")
    example = _example(title)
    if "<<END" in example:
        Path("jobs.csv").write_text(example.partition("<<END\n")[2].partition("\nEND\n")[0] + "\n")
    (line,) = [line for line in example.splitlines() if line.startswith("stallscope plan")]
    done = CliRunner().invoke(
        app, [*shlex.split(line)[1:], "--db", str(tmp_path / "guide.duckdb"), "--json"], prog_name="stallscope"
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["refused"] == []
    assert sum(len(one["jobs"]) for one in document["placements"]) == 2
    assert len(list((tmp_path / "plan").glob(made))) == 1
    if "workstation" in title:  # one GPU for both: they share it, within their own limits
        assert [one["verdict"] for one in document["placements"]] == ["share"]
