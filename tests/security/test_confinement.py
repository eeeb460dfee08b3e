"""Nothing that a reader can type or send opens a file outside the folder of uploads, or becomes part of SQL."""

from __future__ import annotations

import ast
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import duckdb
import pytest
from structlog.testing import capture_logs

from analysis.errors import StallScopeError
from analysis.ingest.contract.format import Hints
from analysis.ingest.importer import import_all, import_paths, preview
from analysis.ingest.mapping import TableMapping, preview_rows
from analysis.ingest.source.opening import opened_files
from analysis.interference.checks import run_checks
from analysis.interference.matrix import slowdown_matrix
from analysis.settings import Settings, get_settings
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources
from analysis.ui.api.tokens import tokens
from tests.conftest import ROOT
from tests.pages.files import all_files

SECRET = "the-secret-that-nobody-may-read"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the database that no input may open."""
    folder = tmp_path / "private"
    folder.mkdir()
    path = folder / "secret.csv"
    path.write_text(f"a,b\n{SECRET},1\n")
    return path


@pytest.fixture
def loaded(database: Database, tmp_path: Path) -> Database:
    """A database with profiles and co-runs."""
    folder = tmp_path / "files"
    folder.mkdir()
    import_paths(database, all_files(folder))
    return database


def test_the_connection_opens_nothing_but_the_spool(loaded: Database, secret: Path, tmp_path: Path) -> None:
    table = [1, 2, 3]  # a replacement scan would find this
    assert table
    out = tmp_path / "out.csv"
    for sql in (
        f"SELECT * FROM '{secret}'", f"SELECT * FROM read_csv('{secret}')", f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM read_blob('{secret}')", f"SELECT * FROM glob('{secret.parent}/*')",
        f"SELECT * FROM read_csv('{loaded.spool}/../private/secret.csv')", f"ATTACH '{secret.parent}/other.duckdb'",
        f"COPY setting FROM '{secret}'", f"COPY (SELECT 1) TO '{out}'", f"EXPORT DATABASE '{tmp_path}/export'",
        f"IMPORT DATABASE '{secret.parent}'", "SELECT * FROM table", "INSTALL httpfs", "LOAD httpfs",
        "SELECT * FROM read_csv('https://127.0.0.1/x')", "SET enable_external_access = true",
        f"SET allowed_directories = ['{secret.parent}']", "SELECT * FROM duckdb_secrets() WHERE getenv('HOME') != ''",
        "PRAGMA database_list; SELECT * FROM '/etc/passwd'",
    ):  # fmt: skip
        with pytest.raises(duckdb.Error):
            loaded.query(sql)
    assert not out.exists()
    assert not (tmp_path / "export").exists()


def test_names_never_become_sql(loaded: Database, secret: Path) -> None:
    before = loaded.query("SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM member)").values.tolist()
    for name in (
        "own' OR '1'='1", "'; DROP TABLE source; --", f"x' UNION SELECT * FROM read_text('{secret}') --", "own\\' --",
        f"read_csv('{secret}')", str(secret), "$name", "?", "%", "own\x00", '"', "own;ATTACH 'x'",
    ):  # fmt: skip
        for chosen in (
            Filter(datasets=(name,)), Filter(gpus=(name,)), Filter(workloads=(name,)), Filter(mechanisms=(name,)),
            Filter(families=(name,)), Filter(phases=(name,)), Filter(precisions=(name,)),
        ):  # fmt: skip
            assert coruns.members(loaded, chosen).empty, name
            if chosen.datasets or chosen.gpus or chosen.workloads:
                assert stall_shares(loaded, chosen, by="workload").empty, name
            assert sources.workloads(loaded, chosen).empty or chosen.gpus or chosen.mechanisms, name
        assert sources.counts(loaded, name)["sources"] == 0
        with pytest.raises(StallScopeError):
            run_checks(loaded, name)
        for arguments in ((name, "A100-40GB", None), ("own", name, None)):
            with pytest.raises(StallScopeError):
                slowdown_matrix(loaded, arguments[0], arguments[1], mechanism=arguments[2])
    after = loaded.query("SELECT (SELECT count(*) FROM source), (SELECT count(*) FROM member)").values.tolist()
    assert after == before


def test_files_named_like_paths_stay_in_the_spool(database: Database, secret: Path, tmp_path: Path) -> None:
    table = b"run,gpu,mechanism,workload,slowdown\n1,V100,CUDA MPS,a,1.2\n1,V100,CUDA MPS,b,1.3\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, name in enumerate(
            ("../../private/secret.csv", "/etc/cron.d/x", "..\\..\\evil.csv", "C:\\evil.csv")
        ):
            archive.writestr(name, table.replace(b"1.2", f"1.2{number}".encode()))
        link = zipfile.ZipInfo("link.csv")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(secret))
    path = tmp_path / "upload"
    path.write_bytes(packed.getvalue())
    files_before = sorted(tmp_path.rglob("*"))
    reports = import_all(database, path, name="../../../evil.zip", hints=Hints(dataset="../../x"))
    assert [one.status for one in reports].count("loaded") == 3, reports
    assert secret.read_text() == f"a,b\n{SECRET},1\n"
    assert [one for one in sorted(tmp_path.rglob("*")) if one not in files_before and "spool" not in one.parts] == []
    held = database.query("SELECT * FROM source").to_csv() + database.query("SELECT * FROM rejected_row").to_csv()
    assert SECRET not in held


def test_a_mapping_by_hand_reads_only_the_table_itself(database: Database, secret: Path, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    names = [f"read_csv('{secret}')", "a') FROM read_text('x') --", '"', "d"]
    path.write_text(",".join('"' + name.replace('"', '""') + '"' for name in names) + "\n1,V100,x,2\n1,V100,y,2\n")
    made = TableMapping(
        name=str(secret), kind="own-coruns", header=names,
        columns={"run_id": names[0], "gpu": names[1], "workload": names[2], "slowdown": names[3]},
        constants={"mechanism": f"'||read_text('{secret}')||'"}, metrics=[],
    )  # fmt: skip
    with opened_files(path, name=str(secret)) as files:
        rows, parsed = preview_rows(files[0], made, Hints())
    assert parsed.rows_loaded == 2
    assert SECRET not in rows.to_csv() + repr(parsed)
    assert SECRET not in repr(preview(path, name=f"../{secret.name}"))


def _sources() -> Iterator[tuple[Path, ast.Module]]:
    for file in [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]:
        if "_bundle" not in file.parts:
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def test_no_pickle_no_eval_no_shell_no_unsafe_html() -> None:
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "xmlrpc", "telnetlib"}
    calls = {"eval", "exec", "read_pickle", "to_pickle", "system", "popen", "mktemp", "getoutput"}
    found = []
    for file, tree in _sources():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [one.name.partition(".")[0] for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").partition(".")[0]] if not node.level else []
                # joblib runs folds side by side here; what it reads and writes would be pickle.
                names += [one.name for one in node.names if node.module == "joblib" and one.name in ("load", "dump")]
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("joblib.load", "joblib.dump"):
                names = [node.attr]
            if (banned | {"load", "dump"}) & set(names):
                found.append(f"{file.name}:{node.lineno} imports {names}")
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in calls:
                    found.append(f"{file.name}:{node.lineno} calls {name}")
                for keyword in node.keywords:
                    if keyword.arg in ("allow_pickle", "shell", "unsafe_allow_html", "unsafe_allow_javascript") and (
                        not isinstance(keyword.value, ast.Constant) or keyword.value.value
                    ):
                        found.append(f"{file.name}:{node.lineno} sets {keyword.arg}")
    assert not found, found


def test_values_are_never_formatted_into_sql() -> None:
    """Statements are assembled of fixed fragments, and only in the store."""
    asked = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|COPY|ATTACH)\b")
    outside = []
    for file, tree in _sources():
        inside = file.is_relative_to(ROOT / "analysis" / "store")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if node.func.attr not in ("execute", "query", "scalar", "sql"):
                continue
            text = ast.unparse(node.args[0])
            if asked.search(text) and isinstance(node.args[0], ast.JoinedStr) and not inside:
                outside.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    # Exports of Nsight Systems are SQLite files of the user's own, read by the names that their own catalogue lists.
    assert [place for place in outside if "/nsys_s" not in place] == []


def test_secrets_are_in_no_log_and_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "a-token-that-is-never-shown-0123456789"
    monkeypatch.setenv("STALLSCOPE_API_TOKEN", token)
    get_settings.cache_clear()
    with capture_logs() as logs:
        held = tokens(Settings.from_environment(), exposed=True)
        said = [repr(get_settings()), str(asdict(get_settings())), repr(held), repr(logs)]
    for short in ("short-secret", "viewer one two three"):
        file = tmp_path / "tokens"
        file.write_text(short)
        monkeypatch.setenv("STALLSCOPE_API_TOKEN_FILE", str(file))
        with pytest.raises(StallScopeError) as refused:
            tokens(Settings.from_environment(), exposed=False)
        said.append(refused.value.sentence)
        assert short not in refused.value.sentence
    assert not [text for text in said if token in text]


def test_reports_and_the_server_s_flags_are_closed() -> None:
    page = (ROOT / "analysis" / "report" / "page.py").read_text()
    policy = page[page.index("def _policy") :]
    assert "default-src 'none'" in policy
    for word in ("unsafe-eval", "http:", "https:", "'unsafe-inline'; script"):
        assert word not in policy.split("def ", 2)[1]
    config = (ROOT / ".streamlit" / "config.toml").read_text()
    assert 'address = "127.0.0.1"' in config
    assert "enableXsrfProtection = true" in config
