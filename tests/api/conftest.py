"""The programming interface on a free port of this machine, without the pages beside it."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware

from analysis.ingest.importer import import_paths
from analysis.predict.models import models
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.api.routes import Interface
from analysis.ui.api.tokens import tokens
from analysis.ui.server.shield import LOOPBACK, Shield
from analysis.ui.shell import access
from tests.pages.files import all_files

EDITOR, VIEWER = "editor-token-0123456789", "viewer-token-0123456789"


@dataclass
class Client:
    """Sends requests to a server and reads the answers."""

    port: int
    token: str | None = None

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return the status and the JSON document, or the text of another form."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=900 if method == "POST" else 60)
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        return answer.status, json.loads(text) if "json" in answer.headers.get("content-type", "") else text

    def post(self, path: str, document: Any) -> tuple[int, Any]:
        """Send a JSON document."""
        return self.ask("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def upload(self, files: Mapping[str, bytes], **fields: str) -> tuple[int, Any]:
        """Send files as a form."""
        body, kind = form(files, **fields)
        return self.ask("POST", "/api/v1/import", body, {"Content-Type": kind})


def form(files: Mapping[str, bytes], **fields: str) -> tuple[bytes, str]:
    """Return the bytes of a form and what they are."""
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()
        for name, value in fields.items()
    ]
    parts += [
        f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content
        for name, content in files.items()
    ]
    return b"\r\n".join(parts) + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"


Serve = Callable[..., AbstractContextManager[Client]]


@pytest.fixture(scope="session")
def known_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with two profiles, 42 co-runs and a model."""
    folder = tmp_path_factory.mktemp("known")
    with Database(folder / "known.duckdb") as database:
        assert [one.status for one in import_paths(database, all_files(folder))] == ["loaded"] * 3
        models.train(database, "own", "effects")
    return folder / "known.duckdb"


@pytest.fixture
def known(known_file: Path) -> Path:
    """Put that database where the server looks for it."""
    path = get_settings().db
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(known_file, path)
    return path


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Start the interface with settings of the test's choice, and end it again."""

    @contextmanager
    def started(
        *, exposed: bool = False, hosts: tuple[str, ...] = LOOPBACK, counters: bool = True, **settings: str
    ) -> Iterator[Client]:
        for name, value in settings.items():
            monkeypatch.setenv(f"STALLSCOPE_{name.upper()}", value)
        get_settings.cache_clear()
        interface = Interface(tokens(get_settings(), exposed=exposed))
        shield = Middleware(Shield, hosts=hosts, may_upload=access.may_upload, may_count=lambda: counters)
        app = Starlette(routes=interface.routes(), middleware=[shield])
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, lifespan="off"))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            deadline = time.monotonic() + 30
            while not server.started:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            try:
                yield Client(listener.getsockname()[1])
            finally:
                server.should_exit = True
                thread.join(30)
                st.cache_resource.clear()

    return started
