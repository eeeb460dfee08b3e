"""`plan` and `may-join` from the command line: the documents, the exports, and refusals in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from analysis.cli import app
from analysis.cli.plan import PLAN_FIELDS
from analysis.ingest.importer import import_paths
from analysis.store.database import Database

RUNS = """run_id,gpu,mechanism,workload,slowdown,outcome,peak_memory_mib,memory_kind
1,A100-40GB,CUDA MPS,a,1.05,ran,9000,nvidia-smi
1,A100-40GB,CUDA MPS,b,1.10,ran,8000,nvidia-smi
2,A100-40GB,CUDA MPS,a,1.60,ran,9000,nvidia-smi
2,A100-40GB,CUDA MPS,c,1.70,ran,30000,nvidia-smi
3,A100-40GB,CUDA MPS,b,1.15,ran,8000,nvidia-smi
3,A100-40GB,CUDA MPS,c,1.12,ran,30000,nvidia-smi
4,A100-40GB,CUDA MPS,d,1.02,ran,,
4,A100-40GB,CUDA MPS,b,1.02,ran,8000,nvidia-smi
"""
JOBS = "job,workload,owner\none,a,ada\ntwo,b,ada\nthree,c,ada\nfour,d,ada\n"
Run = Callable[..., Result]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with four measured pairs."""
    table = tmp_path / "coruns.csv"
    table.write_text(RUNS)
    with Database(tmp_path / "plan.duckdb") as database:
        assert [report.status for report in import_paths(database, [table])] == ["loaded"]
    return tmp_path / "plan.duckdb"


@pytest.fixture
def run(db: Path, tmp_path: Path) -> Callable[..., Any]:
    """Run a command with a list of jobs; returns the document."""

    def _run(*arguments: str, jobs: str | None = JOBS, code: int = 0, command: str = "plan") -> Any:
        given = [command, *arguments, "--db", str(db), "--json"]
        if command == "plan":
            path = tmp_path / "jobs.csv"
            path.write_text(jobs or "")
            given += ["--jobs", str(path)]
        done = CliRunner().invoke(app, given, prog_name="stallscope")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    return _run


def test_the_document_holds_the_contract(run: Run) -> None:
    document: Any = run("--gpu", "A100-40GB=3")
    assert set(PLAN_FIELDS) <= set(document)
    together = sorted(sorted(job["job"] for job in one["jobs"]) for one in document["placements"])
    assert together == [["four"], ["one", "two"], ["three"]]
    assert document["stp"] == pytest.approx(2 + 1 / 1.05 + 1 / 1.10)
    assert document["antt"] == pytest.approx((2 + 1.05 + 1.10) / 4)
    assert document["worst"] == 1.10
    assert document["within_limit"] == 100
    assert document["gap"] == 0
    assert document["gpus_used"] == 3
    assert document["refused"] == []
    assert {"plan", "exclusive", "random", "first_fit", "best_partner"} <= set(document["compared_with"])
    shared = next(one for one in document["placements"] if len(one["jobs"]) == 2)
    assert (shared["verdict"], shared["evidence"]) == ("share", "measured")
    assert "one, two" in shared["if_one_faults"]


def test_who_finds_no_place_waits_with_the_reason(run: Run) -> None:
    document: Any = run("--gpu", "A100-40GB=2")
    assert len(document["refused"]) == 1
    # d ran beside b, but its memory is unknown: no plan puts it beside anybody.
    for one in document["placements"]:
        assert len(one["jobs"]) == 1 or "four" not in {job["job"] for job in one["jobs"]}


def test_the_objective_and_the_limit_are_heeded(run: Run) -> None:
    assert run("--gpu", "A100-40GB=4", "--objective", "gpus")["gpus_used"] == 3  # type: ignore[index]
    strict: Any = run("--gpu", "A100-40GB=3", "--limit", "1.06")
    assert len(strict["refused"]) == 1
    over: Any = run("--gpu", "A100-40GB=3", "--limit", "1.06", "--over-limit")
    assert over["refused"] == []
    assert over["within_limit"] < 100


def test_files_are_written_and_a_plan_that_a_target_cannot_say_is_refused(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    document: Any = run("--gpu", "A100-40GB=3", "--export", "dra", "--out", str(out))
    assert document["export"]["binding"] is True
    assert document["plan_id"] in (out / "stallscope-dra.yaml").read_text()
    refused: Any = run("--gpu", "A100-40GB=3", "--export", "hami", "--out", str(out), code=1)
    assert "UUID" in refused["error"]
    assert "--gpu-list" in refused["error"]
    run("--gpu", "A100-40GB=3", "--export", "hami", code=2)
    run("--gpu", "A100-40GB=3", "--export", "nonsense", "--out", str(out), code=2)


BAD: dict[str, tuple[str, tuple[str, ...], int, str]] = {
    "a job twice": ("job,workload\nx,a\nx,b\n", ("--gpu", "A100-40GB=2"), 1, "stands in the list 2 times"),
    "unknown workload": ("job,workload\nx,nonsense\n", ("--gpu", "A100-40GB=2"), 1, "no workload 'nonsense'"),
    "0 GPUs": (JOBS, ("--gpu", "A100-40GB=0"), 2, "0 GPUs"),
    "no count": (JOBS, ("--gpu", "A100-40GB=x"), 2, "how many GPUs"),
    "no GPU fits": ("job,workload,peak_memory_mib\nx,a,90000\n", ("--gpu", "A100-40GB=2"), 1, "no GPU fits job 'x'"),
    "too many GPUs": ("job,workload,gpus\nx,a,8\n", ("--gpu", "A100-40GB=2"), 1, "needs 8 GPUs"),
    "contradicting wishes": (
        "job,workload,owner,with,not_with\nx,a,ada,y,\ny,b,ada,z,\nz,c,ada,,x\n", ("--gpu", "A100-40GB=2", "--k", "3"),
        2, "x and y must share; y and z must share",
    ),
    "wish across owners": (
        "job,workload,owner,with\nx,a,ada,y\ny,b,bo,\n", ("--gpu", "A100-40GB=2"), 2, "different owners never share",
    ),
    "wish of a stranger": ("job,workload,with\nx,a,nobody\n", ("--gpu", "A100-40GB=2"), 1, "line 2"),
    "broken number": ("job,workload,limit\nx,a,fast\n", ("--gpu", "A100-40GB=2"), 1, "column limit"),
    "limit below 1": (JOBS, ("--gpu", "A100-40GB=2", "--limit", "0.5"), 2, "limit of 0.5"),
    "k of 99": (JOBS, ("--gpu", "A100-40GB=2", "--k", "99"), 2, "--k"),
    "empty": ("", ("--gpu", "A100-40GB=2"), 1, "empty"),
    "no name": ("colour\nred\n", ("--gpu", "A100-40GB=2"), 1, "no column says"),
    "broken JSON": ('{"items": [', ("--gpu", "A100-40GB=2"), 1, "JSON"),
    "broken sacct": ("JobID|JobName|AllocTRES\n1|x\n", ("--gpu", "A100-40GB=2"), 1, "line 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_gives_one_sentence_with_the_cure(run: Run, case: str) -> None:
    text, arguments, code, said = BAD[case]
    document: Any = run(*arguments, jobs=text, code=code)
    assert said in document["error"]
    assert "\n" not in document["error"]
    assert document["error"].rstrip().endswith((".", "`"))


SACCT = """JobID|JobName|User|State|Elapsed|AllocTRES|TRESUsageInAve|TRESUsageInMax
11|a|u1|COMPLETED|01:00:00|billing=8,cpu=8,gres/gpu:a100=1,node=1||
11.0|a|u1|COMPLETED|01:00:00|cpu=8,gres/gpu:a100=1|gres/gpumem=9000M,gres/gpuutil=72|gres/gpumem=9.5G
12|b|u1|RUNNING|02:00:00|billing=8,cpu=8,gres/mps=50,node=1||
13|wide|u2|COMPLETED|02:00:00|billing=8,gres/gpu=8,gres/gpu:h100=8,node=1||
14|cpu|u2|COMPLETED|02:00:00|billing=8,node=1||
"""
PODS = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a-7d4b9c6f5d-x2x4z", "namespace": "one"}, "status": {"phase": "Running"},
         "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "9000"}}}]}},
        {"metadata": {"name": "x", "namespace": "one", "labels": {"stallscope.io/workload": "b"},
                      "annotations": {"nvidia.com/container.main.gpu-memory.limit": "8Gi"}},
         "spec": {"containers": [{"name": "main"}]}},
        {"metadata": {"name": "done", "namespace": "one"}, "status": {"phase": "Succeeded"}, "spec": {}},
        {"metadata": {"name": "web", "namespace": "two"}, "spec": {"containers": [{"resources": {}}]}},
    ],
}  # fmt: skip


def test_every_job_of_slurm_is_named_and_memory_comes_first(run: Run) -> None:
    document: Any = run("--gpu", "A100-40GB=2", "--gpu", "H100-SXM=8", jobs=SACCT)
    placed = {job["job"]: job for one in document["placements"] for job in one["jobs"]}
    assert set(placed) | {one["job"] for one in document["refused"]} == {"a-11", "b-12", "wide-13"}
    assert placed["a-11"]["memory_mib"] == pytest.approx(9.5 * 1024)
    for one in document["placements"]:
        assert one["verdict"] != "share" or all(job["memory_mib"] for job in one["jobs"])
    assert any("left out" in note for note in document["notes"])


def test_pods_have_namespaces_for_owners(run: Run) -> None:
    document: Any = run("--gpu", "A100-40GB=1", jobs=json.dumps(PODS))
    (one,) = document["placements"]
    assert {(job["workload"], job["owner"]) for job in one["jobs"]} == {("a", "one"), ("b", "one")}
    assert one["verdict"] == "share"
    assert sum("left out" in note for note in document["notes"]) == 2


def test_the_openb_table_gets_whole_gpus(run: Run) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,460\np1,1,1,0,0\n"
    document: Any = run("--gpu", "A100-40GB=1", jobs=text)
    assert [job["job"] for one in document["placements"] for job in one["jobs"]] == ["p0"]


def test_may_join(run: Run) -> None:
    found: Any = run("--gpu", "A100-40GB", "--running", "a", "--job", "b", command="may-join")
    assert (found["verdict"], found["may_join"], found["memory"]) == ("share", True, "fits")
    found = run("--gpu", "A100-40GB", "--running", "a", "--job", "c", command="may-join")
    assert found["verdict"] == "don't"
    found = run("--gpu", "A100-40GB", "--running", "b", "--job", "d", command="may-join")
    assert (found["verdict"], found["memory"]) == ("share", "fits"), "nobody knows their peaks, and they ran"
    found = run("--gpu", "A100-40GB", "--running", "a", "--job", "d", command="may-join")
    assert found["verdict"] == "measure first"
    found = run("--gpu", "A100-40GB", "--job", "c", command="may-join")
    assert found["may_join"] is True
    assert "no workload" in run("--gpu", "A100-40GB", "--job", "q", command="may-join", code=1)["error"]  # type: ignore[index]
