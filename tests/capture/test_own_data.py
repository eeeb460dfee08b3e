"""The campaign behind our own data: whole, on a machine that is not there, and as one file without anything of ours."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from analysis.capture import owndata, torchjobs
from analysis.capture.fakenvml import FakeGpu, FakeNvml
from analysis.capture.pack import pack
from analysis.capture.readings import Reader
from analysis.ingest.importer import import_paths
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from analysis.store.filters import Filter
from tests.capture.test_campaigns import made_up

#: Writes what the profiler writes with --page raw: names, units, a row a launch.
NCU = """#!{python} -IS
import sys
words = sys.argv[1:]
given = dict(zip(words[::1], words[1::1]))
metrics = given["--metrics"].split(",")
assert "--run-job" in words and words[words.index("--steps") + 1].isdigit()
head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
with open(given["--log-file"], "w") as out:
    out.write('"' + '","'.join(head + metrics) + '"\\n"' + '","'.join([""] * 11 + ["ns" if "time" in m else "" for m in metrics]) + '"\\n')
    for launch in range(3):
        own = [str(launch), "1", "python", "h", "kernel_" + words[-3] + str(launch), "1", "7", "(256, 1, 1)", "(64, 1, 1)", "0", "9.0"]
        values = ["20" if "warps_active_per" in m else "1000" if "time" in m else "1" for m in metrics]
        out.write('"' + '","'.join(own + values) + '"\\n')
"""  # noqa: E501


def test_the_campaign_is_what_it_says() -> None:
    plan = owndata.own_plan()
    sizes = [len(one) for one in plan.sets]
    assert (len(plan.jobs), sizes.count(2), sizes.count(3) + sizes.count(4), min(sizes[36:])) == (8, 36, 12, 3)
    assert len(set(plan.sets)) == 48
    assert sum(first == second for first, second in (one for one in plan.sets if len(one) == 2)) == 8
    assert plan.timing.windows == 2
    # As they are set, all of it takes ten minutes where a start takes four seconds.
    runs = len(plan.tasks())
    assert runs * (4 + plan.timing.warmup + 2 * plan.timing.seconds) < 600


def test_profiles_and_coruns_are_imported_under_the_same_names(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owndata.ncu, "refuse_beside_mps", lambda: None)
    program = tmp_path / "ncu"
    program.write_text(NCU.format(python=sys.executable))
    program.chmod(0o755)
    said: list[str] = []

    def do() -> owndata.Outcome:
        return owndata.campaign(
            tmp_path / "out", reader=Reader(lambda: FakeNvml([FakeGpu()])), program=str(program), say=said.append,
            pick=made_up,
        )  # fmt: skip

    done = do()
    assert (done.done, done.left, done.failed) == (56, 0, 0)
    assert sum(line.startswith("profile of") for line in said) == 8
    said.clear()
    assert do().new == 0
    assert not [line for line in said if line.startswith("profile of")]  # goes on, does not begin anew
    reports = import_paths(database, [tmp_path / "out"], dataset="measured")
    loaded = [one for one in reports if one.status == "loaded"]
    assert sorted({one.format for one in loaded}) == ["capture-provenance", "ncu-raw", "own-coruns", "own-profiles"]
    assert len(loaded) == len(reports) == 8 + 3
    assert {gpu for one in loaded for gpu in one.gpus} <= {"H200", "NVIDIA H200"}
    names = set(database.query("SELECT name FROM workload")["name"])
    assert names == set(torchjobs.JOBS)
    shares = stall_shares(database, Filter(datasets=("measured",)), by="workload")
    assert set(shares["workload"]) == set(torchjobs.JOBS)
    assert shares["reason"].nunique() >= 19
    assert database.scalar("SELECT count(*) FROM run WHERE k = 2") == 36
    assert database.scalar("SELECT count(*) FROM run WHERE k > 2") == 12
    assert database.scalar("SELECT count(*) FROM member WHERE slowdown IS NULL") == 0


def test_one_file_runs_where_there_is_only_python(tmp_path: Path) -> None:
    path = tmp_path / "own-data.pyz"
    size = pack(path)
    assert size < 200_000
    before = path.read_bytes()
    pack(path)
    assert path.read_bytes() == before
    with zipfile.ZipFile(path) as archive:
        assert "analysis/capture/torchjobs.py" in archive.namelist()
    # Isolated, without site-packages: nothing of ours and nothing installed can be found.
    alone = [sys.executable, "-I", "-S", str(path)]
    shown = subprocess.run([*alone, "--help"], capture_output=True, text=True, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    done = subprocess.run([*alone, "--out", "x"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "PyTorch is not installed" in done.stderr) == (1, True)
    # The measuring part runs from the file too, the guard included.
    code = (
        f"import sys, json; sys.path.insert(0, {str(path)!r})\n"
        "from analysis.capture import campaign, corun, plan, process, rate, readings\n"
        "from pathlib import Path\n"
        "spec = process.JobSpec('a', (sys.executable, '-u', '-IS', '-c', "
        "'import time\\nwhile True: print(1); time.sleep(.01)'), rate.RateBy('lines'))\n"
        "done = campaign.run(plan.Plan({'a': spec}, (), timing=corun.Timing(0.3, 0.1)), Path('y'), gpu='V100')\n"
        "print(json.dumps([done.done, done.failed, len(done.files), campaign.__file__]))"
    )
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found[:3] == [1, 0, 2]
    assert found[3].startswith(str(path))
