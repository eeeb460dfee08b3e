"""Every export says the plan, can be read back, and refuses with the rule what its target can't express."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import tomllib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.errors import InputRefusedError, UsageError
from analysis.plan import exports
from analysis.plan.exports.writing import GPU, JOB, dns_name, quoted, to_yaml
from analysis.plan.problem import GpuKind, Job, Problem
from analysis.plan.solve import Placed, Placement, Plan

UUIDS = tuple(("A100-40GB", f"GPU-0000000{number}-0000-0000-0000-000000000000") for number in range(4))
SETTINGS = exports.Settings("abc", UUIDS)
HOSTILE = (
    "my job", "a/b", "true", "1e3", 'say "hi"', "$(touch x)", "'; rm -rf /", "línea\nnueva", "-", "A" * 90, "0.5",
)  # fmt: skip


def _plan(
    *groups: tuple[str, ...], mechanism: str = "CUDA MPS", peak: float = 9000.0, owner: str = "team-a",
    threads: dict[str, float] | None = None, gpus: dict[str, int] | None = None, memory: float = 40960.0,
) -> Plan:  # fmt: skip
    places, jobs, index = [], [], 0
    for group in groups:
        own = [
            Job(name, "w", owner, (gpus or {}).get(name, 1), peak, threads=(threads or {}).get(name)) for name in group
        ]
        jobs += own
        members = tuple(Placed(job, 1.1 if len(group) > 1 else 1.0, 1.0, 1.2, 1.2) for job in own)
        verdict = "share" if len(group) > 1 else "alone"
        places.append(
            Placement("A100-40GB", index, members, verdict, evidence="measured" if len(group) > 1 else "",
                      gpus=own[0].gpus)
        )  # fmt: skip
        index += own[0].gpus
    problem = Problem(tuple(jobs), (GpuKind("A100-40GB", 8, memory),), mechanism, 3)
    return Plan(problem, tuple(places))


def _of(plan: Plan) -> dict[str, set[str]]:
    return {f"{one.gpu}/{one.index}": {member.job.name for member in one.members} for one in plan.placements}


def _documents(made: exports.Made) -> list[dict[str, Any]]:
    return [
        one for name, text in made.files.items() if name.endswith(".yaml") for one in yaml.safe_load_all(text) if one
    ]


def _read_back(made: exports.Made) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one in _documents(made):
        if one.get("kind") == "Pod":
            notes = one["metadata"]["annotations"]
            found[notes[GPU]].add(notes[JOB])
    return dict(found)


PLAN = _plan(("bert", "resnet"), ("gpt",), ("big",), gpus={"big": 2})


@pytest.mark.parametrize("name", ["dra", "hami", "kai", "device-plugin"])
@pytest.mark.parametrize("plan", [PLAN, _plan(HOSTILE[:2], *((one,) for one in HOSTILE[2:]))])
def test_kubernetes_files_read_back_to_the_same_placement(name: str, plan: Plan) -> None:
    uuids = tuple(("A100-40GB", f"GPU-{number:08d}-0000-0000-0000-000000000000") for number in range(20))
    made = exports.export(name, plan, exports.Settings("abc", uuids))
    assert _read_back(made) == _of(plan)
    kind = "binding" if exports.target(name).binding else "capacity only"
    for text in made.files.values():
        assert f"# {kind}" in text
        assert "plan abc" in text
    names = [one["metadata"]["name"] for one in _documents(made)]
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", one) for one in names)
    assert len(set(names)) == len(names)


def test_a_claim_binds_the_pods_that_share() -> None:
    items = _documents(exports.export("dra", PLAN, SETTINGS))
    claims = {one["metadata"]["name"]: one for one in items if one["kind"] == "ResourceClaim"}
    users = defaultdict(list)
    for one in items:
        if one["kind"] == "Pod":
            users[one["spec"]["resourceClaims"][0]["resourceClaimName"]].append(one["metadata"]["name"])
    assert sorted(map(sorted, users.values())) == [["bert", "resnet"], ["big"], ["gpt"]]
    shared = claims[next(name for name, pods in users.items() if len(pods) == 2)]
    config = shared["spec"]["devices"]["config"][0]["opaque"]
    assert config["driver"] == "gpu.nvidia.com"
    assert config["parameters"]["sharing"]["mpsConfig"]["defaultPinnedDeviceMemoryLimit"] == "9000Mi"
    large = claims[next(name for name, pods in users.items() if pods == ["big"])]
    assert large["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2
    sliced = _documents(exports.export("dra", _plan(("a", "b"), mechanism="time-slicing"), SETTINGS))[0]
    sharing = sliced["spec"]["devices"]["config"][0]["opaque"]["parameters"]["sharing"]
    assert sharing == {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}


def test_hami_binds_by_uuid_and_promises_no_cores() -> None:
    made = exports.export("hami", _plan(("a", "b"), threads={"a": 60, "b": 40}), SETTINGS)
    pods = _documents(made)
    assert {one["metadata"]["annotations"]["nvidia.com/use-gpuuuid"] for one in pods} == {UUIDS[0][1]}
    assert pods[0]["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000, "nvidia.com/gpucores": 60,
    }  # fmt: skip
    assert "soft" in made.notes[0]


def test_the_device_plugin_gets_one_key_a_number_of_replicas() -> None:
    made = exports.export("device-plugin", _plan(("a", "b"), ("c", "d", "e")), SETTINGS)
    config = yaml.safe_load(made.files["stallscope-device-plugin.yaml"])
    inner = {key: yaml.safe_load(text) for key, text in config["data"].items()}
    assert inner["mps-2"]["version"] == "v1"
    assert inner["mps-3"]["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 3}]
    sliced = exports.export("device-plugin", _plan(("a", "b"), mechanism="time-slicing"), SETTINGS)
    inner = yaml.safe_load(yaml.safe_load(sliced.files["stallscope-device-plugin.yaml"])["data"]["slices-2"])
    assert set(inner["sharing"]) == {"timeSlicing"}
    assert inner["sharing"]["timeSlicing"]["failRequestsGreaterThanOne"] is True


def test_kai_asks_for_memory_or_a_whole_gpu_and_never_both() -> None:
    for one in _documents(exports.export("kai", PLAN, SETTINGS)):
        notes = one["metadata"]["annotations"]
        limits = one["spec"]["containers"][0]["resources"].get("limits", {})
        assert ("nvidia.com/container.main.gpu-memory.request" in notes) != ("nvidia.com/gpu" in limits)
        assert one["spec"]["schedulerName"] == "kai-scheduler"
        assert one["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"


def test_mig_slices_stand_the_largest_first_and_fit() -> None:
    plan = _plan(("a", "b"), ("c",), mechanism="MIG")
    small = replace(plan.placements[0].members[1], job=replace(plan.placements[0].members[1].job, memory_mib=4000.0))
    shared = replace(plan.placements[0], members=(small, plan.placements[0].members[0]))
    made = exports.export("mig-parted", replace(plan, placements=(shared, plan.placements[1])), SETTINGS)
    config = yaml.safe_load(made.files["stallscope-mig.yaml"])
    entries = config["mig-configs"]["stallscope-plan"]
    assert config["version"] == "v1"
    assert entries[0]["devices"] == [0]
    assert list(entries[0]["mig-devices"].items()) == [("2g.10gb", 1), ("1g.5gb", 1)]
    assert entries[1] == {"devices": [1], "mig-enabled": False}


def test_slurm_percentages_and_lines() -> None:
    made = exports.export("slurm", _plan(("a", "b"), ("big",), threads={"a": 60}, gpus={"big": 2}), SETTINGS)
    assert "#SBATCH --gres=mps:60\n" in made.files["job-a.sh"]
    assert "#SBATCH --gres=mps:40\n" in made.files["job-b.sh"]
    assert "#SBATCH --gres=gpu:a100:2\n" in made.files["job-big.sh"]
    assert "Name=mps Count=100 File=/dev/nvidia0" in made.files["gres.conf.part"]
    assert "Gres=gpu:a100:8,mps:100" in made.files["slurm.conf.part"]
    sliced = exports.export("slurm", _plan(("a", "b"), mechanism="time-slicing"), SETTINGS)
    assert "#SBATCH --gres=shard:1\n" in sliced.files["job-a.sh"]


def test_shell_lines_run_and_let_no_name_become_a_command(tmp_path: Path) -> None:
    plan = _plan(HOSTILE[5:8], threads=dict.fromkeys(HOSTILE[5:8], 30.0))
    made = exports.export("mps", plan)
    written = exports.write(made, tmp_path / "out")
    text = written[0].read_text()
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30" in text
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=9000M" in text
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name in HOSTILE[5:8]:
        program = folder / dns_name(name)
        program.write_text('#!/bin/sh\necho "$STALLSCOPE_JOB" >> "$SEEN"\n')
        program.chmod(0o755)
    fake = tmp_path / "bin" / "nvidia-cuda-mps-control"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    seen = tmp_path / "seen"
    done = subprocess.run(
        ["sh", str(written[0])], cwd=tmp_path, capture_output=True, text=True, timeout=30,
        env={"HOME": str(tmp_path), "PATH": f"{fake.parent}:/usr/bin:/bin", "JOBS": str(folder), "SEEN": str(seen)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(seen.read_text().splitlines()) == sorted(name.replace("\n", " ") for name in HOSTILE[5:8])
    assert not (tmp_path / "x").exists()
    assert all(shlex.split(line) for line in text.splitlines() if line.startswith("STALLSCOPE_JOB"))


def test_toml_is_read_and_holds_only_known_keys() -> None:
    made = exports.export("mps3", _plan(("a", "b"), threads={"a": 50, "b": 50}), SETTINGS)
    found = tomllib.loads(made.files["stallscope-mps.toml"])
    assert found["schema_version"] == "1.0"
    (server,) = found["servers"].values()
    assert server == {
        "allowed_devices": UUIDS[0][1], "pinned_memory_limit": "9000M", "active_thread_percentage": 50,
    }  # fmt: skip


REFUSED: list[tuple[str, Plan, exports.Settings, str]] = [
    ("dra", _plan(("a", "b"), threads={"a": 60, "b": 40}), SETTINGS, "one thread percentage holds"),
    ("dra", _plan(("a", "b", "c"), peak=15000.0), SETTINGS, "one pinned memory limit"),
    ("dra", _plan(("a", "b"), mechanism="streams"), SETTINGS, "CUDA MPS or time-slicing, not by streams"),
    ("dra", _plan(("a", "b"), mechanism="time-slicing", threads={"a": 50}), SETTINGS, "no thread percentages"),
    ("dra-memory", _plan(("a", "b")), SETTINGS, "refused together with CUDA MPS"),
    ("hami", _plan(("a", "b")), exports.Settings(), "names GPUs by UUID"),
    ("hami", _plan(("a", "b"), peak=math.nan), SETTINGS, "memory of 'a' is unknown"),
    ("hami", _plan(("a", "b"), mechanism="MIG"), SETTINGS, "not MIG slices"),
    ("kai", _plan(("a", "b"), threads={"a": 50}), SETTINGS, "50 % of the threads"),
    ("kai", _plan(("a", "b"), peak=math.nan), SETTINGS, "memory of 'a' is unknown"),
    ("kai", _plan(("a", "b"), mechanism="MIG"), SETTINGS, "not by MIG"),
    ("device-plugin", _plan(("a",)), SETTINGS, "replicas begin at two"),
    ("device-plugin", _plan(("a", "b"), peak=30000.0), SETTINGS, "1/2 of the memory"),
    ("device-plugin", _plan(("a", "b"), threads={"a": 70}), SETTINGS, "70 % of the threads"),
    ("device-plugin", _plan(("a", "b")), exports.Settings(gpus_per_node=2), "same replicas"),
    ("device-plugin", _plan(("a", "b"), mechanism="MIG"), SETTINGS, "not by MIG"),
    ("mig-parted", _plan(("a", "b")), SETTINGS, "this plan shares by CUDA MPS"),
    ("mig-parted", _plan(("a", "b", "c"), mechanism="MIG", peak=19000.0), SETTINGS, "compute"),
    ("mig-parted", _plan(("a", "b"), mechanism="MIG", peak=50000.0), SETTINGS, "no profile"),
    ("slurm", _plan(("a", "b"), mechanism="MIG"), SETTINGS, "not by MIG"),
    ("slurm", _plan(("a", "b"), threads={"a": 100.0, "b": 20}), SETTINGS, "more than 100"),
    ("mps", _plan(("a", "b"), mechanism="time-slicing"), SETTINGS, "not by time-slicing"),
    ("mps", _plan(("a", "b"), threads={"a": 80, "b": 40}), SETTINGS, "more than 100"),
    ("mps", _plan(("a", "b"), peak=30000.0), SETTINGS, "memory limits"),
    ("mps3", _plan(("a", "b"), threads={"a": 60, "b": 40}), SETTINGS, "one thread percentage"),
    ("mps3", _plan(("a", "b")), exports.Settings(), "names GPUs by UUID"),
    ("kai", replace(PLAN, placements=()), SETTINGS, "places no job"),
]


@pytest.mark.parametrize(("name", "plan", "settings", "rule"), REFUSED)
def test_what_a_target_cannot_say_is_refused_with_the_rule(
    name: str, plan: Plan, settings: exports.Settings, rule: str
) -> None:
    with pytest.raises(InputRefusedError, match=re.escape(rule)) as refused:
        exports.export(name, plan, settings)
    assert refused.value.cure


@pytest.mark.parametrize("name", [one.name for one in exports.TARGETS])
def test_owners_are_never_put_together_under_mps(name: str) -> None:
    plan = _plan(("a", "b"))
    other = replace(plan.placements[0].members[1], job=replace(plan.placements[0].members[1].job, owner="bo"))
    both = replace(plan.placements[0], members=(plan.placements[0].members[0], other))
    with pytest.raises(InputRefusedError, match="different owners"):
        exports.export(name, replace(plan, placements=(both,)), SETTINGS)
    if name == "dra":
        sliced = _plan(("a", "b"), mechanism="time-slicing")
        with pytest.raises(InputRefusedError, match="different namespaces"):
            exports.export(name, replace(sliced, placements=(both,)), SETTINGS)


def test_an_unknown_target_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"dra \(binding\)"):
        exports.target("list")


@pytest.mark.parametrize("text", [*HOSTILE, "\x85", "\u2028", "\x7f", "\U0001f600", "# no", "a: b", "", " x "])
def test_yaml_strings_stay_strings(text: str) -> None:
    assert yaml.safe_load(to_yaml({"a": [text, {"b": text}, [], {}], "true": 1})) == {
        "a": [text, {"b": text}, [], {}], "true": 1,
    }  # fmt: skip
    assert yaml.safe_load(quoted(text)) == text


def test_a_list_of_gpus_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gpus.txt"
    path.write_text(f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: {UUIDS[0][1]})\nGPU 1: Odd (UUID: {UUIDS[1][1]})\n")
    assert exports.read_gpu_list(path) == (("A100-40GB", UUIDS[0][1]), ("Odd", UUIDS[1][1]))
    path.write_text("nothing")
    with pytest.raises(InputRefusedError, match="no line names a GPU"):
        exports.read_gpu_list(path)
