"""A sample that the command wrote comes in as it says of itself, and every command that shows it says simulated."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.cli import app
from analysis.ingest.importer import import_paths
from analysis.reference import origin
from analysis.settings import asset
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

runner = CliRunner()
PAIR = ("bert-base_bs32_amp_train", "dcgan_bs64_fp32_train")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("said") / "said.duckdb"
    with Database(path) as database:
        files = [asset("data", "samples", name) for name in ("profiles_V100-32GB.zip", "coruns.csv.gz")]
        reports = import_paths(database, files, dataset="trial")
    assert {report.status for report in reports} == {"loaded"}
    return path


def test_profiles_join_the_co_runs_by_the_name_in_the_file(loaded: Path) -> None:
    with Database(loaded) as database:
        chosen = Filter(datasets=("trial",))
        known = sources.workloads(database, chosen)
        ran = set(coruns.members(database, chosen)["workload"])
    profiled = known[known["profiles"] > 0]
    assert len(known) == len(profiled) == 24
    assert set(known["workload"]) == ran
    assert {gpu for gpus in profiled["gpus"] for gpu in gpus} >= {"V100-32GB"}


def test_the_users_name_goes_first(database: Database, tmp_path: Path) -> None:
    with zipfile.ZipFile(asset("data", "samples", "profiles_V100-32GB.zip")) as archive:
        path = Path(archive.extract(archive.namelist()[0], tmp_path))
    report = import_paths(database, [path], workload="mine", gpu="T4", dataset="own-trial")[0]
    assert report.report["workload_from"] == "by you"
    known = sources.workloads(database, Filter(datasets=("own-trial",)))
    assert known["workload"].tolist() == ["mine"]
    assert list(known["gpus"].iloc[0]) == ["T4"]


COMMANDS = {
    "matrix": ("--dataset", "trial", "--gpu", "V100"),
    "kernels": ("--dataset", "trial"),
    "stalls": ("--dataset", "trial"),
    "architectures": ("--dataset", "trial"),
    "check": ("--dataset", "trial"),
    "partners": ("--dataset", "trial", "--gpu", "V100", "--workload", PAIR[0]),
    "overlap": (*PAIR, "--gpu", "V100", "--dataset", "trial"),
}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_that_it_shows_simulated_data(loaded: Path, name: str) -> None:
    result = runner.invoke(app, [name, *COMMANDS[name], "--db", str(loaded)])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(origin.HEADINGS["simulated"])
    assert "measured under" not in result.stdout
    shown = runner.invoke(app, [name, *COMMANDS[name], "--db", str(loaded), "--json"])
    assert origin.of(json.loads(shown.stdout)) == "simulated"


def test_measured_data_get_no_heading() -> None:
    assert origin.heading([{"simulated": False}]) == ""
    assert origin.heading({"rows": [{"simulated": False}, {"simulated": True}]}) == origin.HEADINGS["partly"]
    assert origin.heading("simulated") == ""
    assert origin.evidence("measured", simulated=True) == "simulated"
    assert origin.evidence("stalls", simulated=True) == "stalls"
