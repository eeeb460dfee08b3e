"""A reader who may only look changes nothing: by no control, by no function behind one, by no write of a page."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.errors import NotAllowedError, UsageError
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.api.operations import OPERATIONS
from analysis.ui.shell import access
from analysis.ui.shell.access import Role
from tests.conftest import ROOT

AUTH = {
    "auth": {
        "redirect_uri": "http://localhost/oauth2callback",
        "cookie_secret": "x" * 32,
        "client_id": "x",
        "client_secret": "x",
        "server_metadata_url": "http://localhost/.well-known/openid-configuration",
    }
}

#: What each page offers that changes something.
WRITERS = {
    "pages/help/settings.py": {"sample-load"},
    "pages/predict/train.py": {"train-model"},
}


def _page(script: str, email: str | None, **claims: object) -> AppTest:
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    test.secrets = AUTH
    if email is not None:
        test.user = {"is_logged_in": True, "email": email, **claims}
    test.run()
    test.switch_page(script)
    test.run()
    assert not test.exception, test.exception
    return test


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Name an editor and the viewers."""
    file = tmp_path / "roles.toml"
    file.write_text('editors = ["Ada@Example.org"]\nviewers = ["*@example.org"]\n')
    monkeypatch.setenv("STALLSCOPE_ROLES", str(file))
    get_settings.cache_clear()


@pytest.mark.parametrize(("email", "off"), [("ada@example.org", False), ("bob@example.org", True)])
def test_only_editors_can_press_what_changes_something(filled: Path, named: None, email: str, off: bool) -> None:
    for script, keys in WRITERS.items():
        test = _page(script, email)
        found = {one.key: one.disabled for one in test.button if one.key in keys}
        assert found == dict.fromkeys(keys, off), script
    said = "\n".join(one.value for one in test.sidebar.caption)
    assert ("viewer" if off else "editor") in said


@pytest.mark.parametrize("email", [None, "eve@evil.test", "bob@example.org"])
def test_who_may_not_read_sees_nothing(filled: Path, named: None, email: str | None) -> None:
    test = _page("pages/data/library.py", email, email_verified=False)
    assert not test.dataframe
    assert not test.sidebar.selectbox
    assert [one.label for one in test.button] == ["Sign in" if email is None else "Sign out"]


def test_the_database_refuses_what_a_page_forgot(filled: Path, named: None) -> None:
    def forgetful() -> None:
        import streamlit as st

        from analysis.errors import NotAllowedError
        from analysis.store.queries import settings
        from analysis.ui.shell.resources import database, jobs

        for write in (
            lambda: settings.put(database(), "a", "b"),
            lambda: jobs().submit("x", {}, lambda _: {}),
        ):
            try:
                write()
            except NotAllowedError as error:
                st.error(error.sentence)
            else:
                st.success("written")

    for email, refused, written in (("bob@example.org", 2, 0), ("ada@example.org", 0, 2)):
        test = AppTest.from_function(forgetful, default_timeout=60)
        test.secrets, test.user = AUTH, {"is_logged_in": True, "email": email}
        test.run()
        assert not test.exception, test.exception
        assert (len(test.error), len(test.success)) == (refused, written)


def test_for_reading_only_no_page_writes(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_READ_ONLY", "true")
    monkeypatch.setenv("STALLSCOPE_SAMPLE", "on")
    get_settings.cache_clear()
    before = filled.read_bytes()
    test = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for script in ("pages/home/overview.py", "pages/data/library.py", "pages/help/settings.py"):
        test.run()
        test.switch_page(script)
        test.run()
        assert not test.exception
        assert not test.error, [one.value for one in test.error]
    assert all(one.disabled for one in test.button if one.key == "sample-load")
    assert filled.read_bytes() == before


def test_roles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: None) -> None:
    monkeypatch.setenv("STALLSCOPE_VIEWERS", "carl@other.test, ")
    get_settings.cache_clear()
    now = access.current()
    for email, role in (
        ("ADA@example.org", Role.EDITOR), ("bob@example.org", Role.VIEWER), ("carl@other.test", Role.VIEWER),
        ("eve@evil.test", Role.NOBODY), ("ada@example.org.evil.test", Role.NOBODY), ("", Role.NOBODY),
        (None, Role.NOBODY), ("*", Role.NOBODY), ("bob@sub.example.org", Role.NOBODY),
    ):  # fmt: skip
        assert now.of(email) is role, email
    file = tmp_path / "roles.toml"
    for broken in ("editors = 1", 'admins = ["a"]', "editors = [", "editors = [1]"):
        file.write_text(broken)
        with pytest.raises(UsageError):
            access.current()


def test_uploads_to_memory_are_only_for_sessions_of_editors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert access.may_upload("any")
    monkeypatch.setattr(access, "login_configured", lambda: True)
    assert not access.may_upload("any")


def test_marked_functions_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "role", lambda: Role.VIEWER)
    with pytest.raises(NotAllowedError):
        access.editing(lambda: None)()


# --- a new writer without a check fails here ---------------------------------------------------------------------

#: Functions that only a job or a marked function calls.
OF_JOBS = {"analysis.ui.parts.upload.load_all", "analysis.ui.parts.train.compare",
           "analysis.ui.shell.sample._started", "analysis.ui.parts.gpu.record"}  # fmt: skip


def _functions() -> dict[str, tuple[ast.AST, dict[str, str], list[str]]]:
    """Return every function of the project: its tree, the names its module knows, its marks and those around it."""
    found: dict[str, tuple[ast.AST, dict[str, str], list[str]]] = {}
    files = [*(ROOT / "analysis").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"]
    for file in files:
        if "_bundle" in file.parts:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        names: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.update({one.asname or one.name: f"{node.module}.{one.name}" for one in node.names})

        def visit(
            node: ast.AST, path: str, around: list[str], names: dict[str, str] = names, module: str = module
        ) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    marks = [*around, *(ast.unparse(one) for one in child.decorator_list)]
                    own = f"{path}.{child.name}"
                    names.setdefault(child.name, own) if path == module else None
                    found[own] = (child, names, marks)
                    visit(child, path, marks)
                else:
                    visit(child, f"{path}.{child.name}" if isinstance(child, ast.ClassDef) else path, around)

        visit(tree, module, [])
    return found


def _called(function: ast.AST, names: dict[str, str]) -> set[str]:
    """Return what a function mentions, by full names: a function handed on counts like one called."""
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            found.add(f"{names[node.value.id]}.{node.attr}")
        elif isinstance(node, ast.Name) and node.id in names:
            found.add(names[node.id])
    return found


def _writes_itself(function: ast.AST) -> bool:
    """Say whether it opens a write, or hands work to the runner or takes it back."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = ast.unparse(node.func.value)
            if node.func.attr == "write" and on in ("db", "database", "opened", "self._database", "database()"):
                return True
            if node.func.attr in ("submit", "cancel") and on == "jobs()":
                return True
    return False


def _unchecked(functions: dict[str, tuple[ast.AST, dict[str, str], list[str]]]) -> tuple[set[str], set[str]]:
    """Return the functions that write, and those of the user interface that do so without a check."""
    upstairs = ("analysis.ui.", "pages.", "app")
    below = {name for name in functions if not name.startswith(("analysis.cli.", "analysis.capture."))}
    called = {name: _called(*functions[name][:2]) for name in below}
    checked = {name for name in below if {"access.editing", "editing"} & set(functions[name][2])}
    writers = {name for name in below if _writes_itself(functions[name][0])}
    # Who calls a checked function need not check again.
    spreading = writers - checked
    while spreading:
        reached = {name for name in below - writers if called[name] & spreading}
        writers |= reached
        spreading = reached - checked
    # The programming interface asks for a token before anything else, by the operation's own word.
    return writers, {name for name in writers - checked if name.startswith(upstairs) and ".api." not in name}


def test_every_writer_of_the_pages_asks_first_and_a_new_one_without_a_check_is_found() -> None:
    functions = _functions()
    writers, unchecked = _unchecked(functions)
    assert {
        "analysis.store.loader.load", "analysis.ingest.importer.import_all", "analysis.predict.models.models.train",
        "analysis.ui.parts.upload._submit", "analysis.ui.parts.library._remove", "pages.predict.models.delete",
        "analysis.ui.parts.checks._keep", "analysis.ui.parts.upload._save", "analysis.ui.parts.upload.apply",
    } <= writers  # fmt: skip
    assert unchecked <= OF_JOBS, f"mark these with access.editing: {sorted(unchecked - OF_JOBS)}"

    assert [one.name for one in OPERATIONS if one.writes] == ["import"]
    code = "def forgetful():\n    models.delete(database(), 'x')\n"
    tree = ast.parse(code).body[0]
    functions["pages.new.forgetful"] = (tree, {"models": "analysis.predict.models.models"}, [])
    assert "pages.new.forgetful" in _unchecked(functions)[1]
    functions["pages.new.forgetful"] = (tree, {"models": "analysis.predict.models.models"}, ["access.editing"])
    assert "pages.new.forgetful" not in _unchecked(functions)[1]


def test_the_second_line_is_set_where_the_database_is_opened() -> None:
    source = (ROOT / "analysis" / "ui" / "shell" / "resources.py").read_text()
    assert "database.guard = access.guard" in source
    assert Database(None).guard() is None
