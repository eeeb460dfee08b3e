"""A wheel installed away from the checkout holds the same app, and nothing private has slipped into the repository."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pages.files import GPU, PROFILED, coruns, profile


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked into an empty directory."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # Somebody's own package of the name that the engine has in a checkout.
    (site / "analysis").mkdir()
    (site / "analysis" / "__init__.py").write_text("raise ImportError('this is somebody else's analysis')\n")
    return site


def _environment(site: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site), **more}


def test_assets_ride_in_the_wheel(installed: Path) -> None:
    wanted = [path.relative_to(ROOT) for path in (ROOT / "pages").rglob("*.py")]
    wanted += [path.relative_to(ROOT) for path in (ROOT / "data").rglob("*") if path.is_file()]
    wanted += [Path("app.py"), Path(".streamlit/config.toml")]
    missing = [str(path) for path in wanted if not (installed / "stallscope" / "_bundle" / path).exists()]
    assert not missing
    code = "from stallscope.settings import asset; print(asset('app.py')); print(asset('data', 'gpus.csv'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=_environment(installed), cwd=installed, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(installed)) for line in done.stdout.split())


def test_the_installed_app_starts(installed: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "stallscope.cli", "serve", "--port", str(port), "--db", str(tmp_path / "x.duckdb")],
        env=_environment(installed, STALLSCOPE_SAMPLE="off"),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
                    assert answer.read() == b"ok"
                    break
            except OSError:
                assert server.poll() is None, server.stdout and server.stdout.read().decode()
                assert time.monotonic() < deadline, "the server did not answer"
                time.sleep(0.3)
    finally:
        server.terminate()
        server.wait(timeout=20)


def test_the_notebook_of_the_guide_runs_beside_somebodys_own_analysis(installed: Path, tmp_path: Path) -> None:
    text = (ROOT / "data" / "guide" / "python.md").read_text(encoding="utf-8")
    code = re.search(r"<!-- notebook -->\n```python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 24
    profile(tmp_path / "profiles.csv", PROFILED[0])
    coruns(tmp_path / "coruns.csv")
    done = subprocess.run(
        [sys.executable, "-c", code[1]], env=_environment(installed), cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "waits most for long_scoreboard" in done.stdout
    assert re.search(r"Don't \(limit 1.2 x\): Measured together", done.stdout)
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_the_wheel_is_typed_and_names_itself_alone(installed: Path) -> None:
    assert (installed / "stallscope" / "py.typed").exists()
    modules = list((installed / "stallscope").rglob("*.py"))
    assert len(modules) > 400
    own = re.compile(r"^\s*(?:from|import) analysis\b|\"analysis\.|-m analysis", re.MULTILINE)
    assert not [str(path) for path in modules if own.search(path.read_text(encoding="utf-8"))]
    (entry,) = installed.glob("stallscope-*.dist-info/entry_points.txt")
    assert "stallscope = stallscope.cli:app" in entry.read_text()


def test_a_model_of_a_checkout_is_read_by_the_wheel(installed: Path, tmp_path: Path) -> None:
    from analysis.ingest.importer import import_paths
    from analysis.predict.models import models
    from analysis.store.database import Database

    with Database(tmp_path / "own.duckdb") as opened:
        import_paths(opened, [coruns(tmp_path / "coruns.csv")])
        card = models.train(opened, "own", "effects")
        expected = models.predict(opened, card.model_id, GPU, ["gnn_bs1024_fp32", "bert_bs8_amp"])
    command = ["predict", "--model", card.model_id, "--gpu", GPU, "--job", "gnn_bs1024_fp32", "--job", "bert_bs8_amp"]
    done = subprocess.run(
        [sys.executable, "-m", "stallscope.cli", *command, "--db", str(tmp_path / "own.duckdb"), "--json"],
        env=_environment(installed), cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["slowdown"] for row in json.loads(done.stdout)] == pytest.approx([one.slowdown for one in expected])


def test_an_editable_installation_has_the_name(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _EDITABLE, str(ROOT), str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "stallscope.py" in names
        archive.extractall(tmp_path / "site")
    code = "import stallscope; print(stallscope.load.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "analysis.notebook", done.stderr


_EDITABLE = "import os, sys; os.chdir(sys.argv[1]); import hatchling.build as b; b.build_editable(sys.argv[2])"


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_top_level_holds_what_the_design_allows() -> None:
    allowed = {"pyproject.toml", "README.md", "LICENSE", "app.py", "pages", "analysis", "data", "tests"}
    top = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    assert {name for name in top if not name.startswith(".")} <= allowed


def test_no_lock_file_and_no_machine_path_is_tracked() -> None:
    private = re.compile(rb"(?<![\w.])/(?:work|root)/[a-z.]|files\.pythonhosted\.org|pypi\.org/simple")
    offenders = [
        str(path.relative_to(ROOT))
        for path in _tracked()
        if path.suffix not in {".png", ".parquet"} and path != Path(__file__) and private.search(path.read_bytes())
    ]
    assert not offenders
    assert not [path.name for path in _tracked() if path.name in {"uv.lock", "poetry.lock", "package-lock.json"}]


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / ".ci" / "constraints.txt").read_text().split()
    assert lines
    assert all(re.fullmatch(r"[a-z0-9_.\-]+==[0-9a-z.+]+", line) for line in lines)


def test_test_modules_have_names_of_their_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_the_version_stands_in_one_place_and_is_cited() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    changes = (ROOT / "data" / "guide" / "changes.md").read_text(encoding="utf-8")
    assert f"version = {{{version[1]}}}" in changes
    assert f"## {version[1]}\n" in changes
