"""Every Kubernetes file passes the official schemas, a misspelt one does not, and the numbers can be read back."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from analysis.plan import exports
from analysis.plan.solve import Plan
from tests.conftest import SHARED
from tests.plan.test_exports import HOSTILE, PLAN, SETTINGS, _plan

#: The newest schemas that the package brings; `kubernetes-validate` is told no network.
VERSION = "1.37"
KUBERNETES = ("dra", "dra-memory", "hami", "kai", "device-plugin")


@pytest.fixture(name="valid")
def _valid() -> Callable[[dict[str, Any]], None]:
    """Hold a document against the schemas of `kubernetes-validate`, offline; the other tests here need none."""
    schemas = pytest.importorskip("kubernetes_validate")
    return lambda document: schemas.validate(document, VERSION, strict=True)


Valid = Callable[[dict[str, Any]], None]


def _made(name: str, plan: Plan) -> exports.Made:
    uuids = tuple(("A100-40GB", f"GPU-{number:08d}-0000-0000-0000-000000000000") for number in range(20))
    return exports.export(name, plan, exports.Settings("abc", uuids))


@pytest.mark.parametrize("name", KUBERNETES)
@pytest.mark.parametrize("how", ["CUDA MPS", "time-slicing"])
def test_every_kubernetes_file_passes_the_schemas(name: str, how: str, valid: Valid) -> None:
    if name == "dra-memory" and how == "CUDA MPS":
        how = "time-slicing"  # refused with MPS, which `test_exports` holds
    plan = _plan(HOSTILE[:2], ("gpt",), ("big",), *((one,) for one in HOSTILE[2:]), mechanism=how, gpus={"big": 2})
    checked = 0
    for text in _made(name, plan).files.values():
        for document in yaml.safe_load_all(text):
            valid(document)
            checked += 1
    assert checked >= len(plan.members)


def test_a_misspelt_field_does_not_pass(valid: Valid) -> None:
    claim = next(yaml.safe_load_all(_made("dra", PLAN).files["stallscope-dra.yaml"]))
    request = claim["spec"]["devices"]["requests"][0]
    request["exactely"] = request.pop("exactly")
    with pytest.raises(Exception, match="exactely"):
        valid(claim)


@pytest.mark.skipif(not (SHARED / "placement").is_dir(), reason="the examples that lie beside the project")
def test_the_examples_beside_the_project_pass_too(valid: Valid) -> None:
    found = [
        document
        for path in sorted((SHARED / "placement" / "examples").glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if "kind" in document
    ]
    assert len(found) >= 9
    for document in found:
        valid(document)


CAPPED = _plan(("a", "b"), ("c",), threads={"a": 60, "b": 40})


def test_numbers_of_kubernetes_files_are_those_of_the_plan() -> None:
    for pod in yaml.safe_load_all(_made("hami", CAPPED).files["stallscope-hami.yaml"]):
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        if pod["metadata"]["name"] in ("a", "b"):
            assert (limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"]) == (
                9000, {"a": 60, "b": 40}[pod["metadata"]["name"]],
            )  # fmt: skip
    for pod in yaml.safe_load_all(_made("kai", PLAN).files["stallscope-kai.yaml"]):
        asked = pod["metadata"]["annotations"].get("nvidia.com/container.main.gpu-memory.request")
        assert asked == ("9000Mi" if pod["metadata"]["name"] in ("bert", "resnet") else None)


def test_shell_lines_slurm_toml_and_mig_read_back_to_the_same_placement() -> None:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for text in exports.export("mps", CAPPED, SETTINGS).files.values():
        device = re.search(r"CUDA_VISIBLE_DEVICES=(\S+)", text)
        assert device is not None
        for line in text.splitlines():
            if job := re.match(r"STALLSCOPE_JOB=(\S+)", line):
                share = re.search(r"ACTIVE_THREAD_PERCENTAGE=(\d+)", line)
                found[device[1]][job[1]] = float(share[1]) if share else 100.0
    assert dict(found) == {SETTINGS.devices[0][1]: {"a": 60, "b": 40}, SETTINGS.devices[1][1]: {"c": 100}}
    slurm = exports.export("slurm", CAPPED, SETTINGS).files
    planned = {name: (re.search(r"# planned for: (\S+)", text), re.search(r"--gres=(\S+)", text))
               for name, text in slurm.items() if name.startswith("job-")}  # fmt: skip
    assert {name: (at[1], gres[1]) for name, (at, gres) in planned.items() if at and gres} == {
        "job-a.sh": ("A100-40GB/0", "mps:60"), "job-b.sh": ("A100-40GB/0", "mps:40"),
        "job-c.sh": ("A100-40GB/1", "gpu:a100:1"),
    }  # fmt: skip
    even = exports.export("mps3", _plan(("a", "b"), ("c", "d")), SETTINGS).files["stallscope-mps.toml"]
    servers = tomllib.loads(even)["servers"]
    assert [one["allowed_devices"] for one in servers.values()] == [uuid for _, uuid in SETTINGS.devices[:2]]
    assert re.findall(r"# clients: (.*)", even) == ["a, b", "c, d"]
    mig = exports.export("mig-parted", _plan(("a", "b"), ("c",), mechanism="MIG"), SETTINGS).files
    (text,) = mig.values()
    assert re.findall(r'# A100-40GB (\d+) \S+: "(.*)"', text) == [("0", "a"), ("0", "b")]


def test_no_file_is_written_without_saying_what_it_rests_on(tmp_path: Path) -> None:
    for target in exports.TARGETS:
        if target.name in ("mig-parted", "dra-memory"):
            plan = _plan(("a", "b"), mechanism="MIG" if target.name == "mig-parted" else "time-slicing")
        else:
            plan = _plan(("a", "b"))
        for path in exports.write(exports.export(target.name, plan, SETTINGS), tmp_path / target.name):
            head = path.read_text()[:600]
            assert "plan abc" in head
            assert "evidence: measured" in head
            assert ("# binding" if target.binding else "# capacity only") in head
