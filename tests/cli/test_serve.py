"""The server starts from an empty directory, says where it is, and ends cleanly."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from analysis.errors import StallScopeError
from analysis.store.database import Database
from analysis.ui.server import server

ROOT = Path(__file__).parents[2]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    port, db = _free_port(), tmp_path / "own.duckdb"
    (tmp_path / ".streamlit").mkdir()
    # A configuration that happens to lie in the user's directory must not open the application to the network.
    (tmp_path / ".streamlit" / "config.toml").write_text('[server]\naddress = "0.0.0.0"\nmaxUploadSize = 1\n')
    running = subprocess.Popen(
        [sys.executable, "-m", "analysis.cli", "serve", "--port", str(port), "--db", str(db)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2) as answer:
                    assert answer.read() == b"ok"
                    break
            except OSError:
                assert running.poll() is None, running.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.2)
        assert running.stdout is not None
        said = ""
        while "Ctrl-C" not in said:  # it is said once the server answers, and not before
            line = running.stdout.readline()
            assert line, said
            said += line
        own = socket.gethostbyname(socket.gethostname())
        if not own.startswith("127."):
            with pytest.raises(OSError), socket.create_connection((own, port), timeout=2):
                pass
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert f"http://127.0.0.1:{port}" in said
    assert str(db) in said
    assert "Traceback" not in err
    Database(db).close()


_STUCK = """
import sys, time
from analysis.ui.parts import upload
def stuck(*_, **__):
    print("stuck", flush=True)
    while True:
        time.sleep(0.01)
upload.import_all = stuck
from analysis.cli.main import app
app(["serve", "--port", sys.argv[1], "--db", sys.argv[2]])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_whatever_runs(tmp_path: Path, number: signal.Signals) -> None:
    port, db, token = _free_port(), tmp_path / "own.duckdb", "a-token-of-an-editor-0123456789"
    running = subprocess.Popen(
        [sys.executable, "-c", _STUCK, str(port), str(db)], stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STALLSCOPE_API_TOKEN": token, "STALLSCOPE_SAMPLE": "off"},
    )  # fmt: skip
    assert running.stdout is not None
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    head = (
        f"POST /api/v1/import HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        while "Ctrl-C" not in (line := running.stdout.readline()):
            assert line, "the server ended before it answered"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as asking:
            asking.sendall(head.encode() + body)
            while "stuck" not in (line := running.stdout.readline()):
                assert line, "the server ended before it loaded"
            # Without a limit it would wait for the answer for ever.
            running.send_signal(number)
            running.wait(timeout=60)
    finally:
        running.kill()
        running.stdout.close()
    with Database(db) as opened:
        assert opened.scalar("SELECT count(*) FROM source") == 0


def test_a_taken_port_is_said(cli: Callable[..., Result], db: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        done = cli("serve", "--port", port, "--db", db)
    assert done.exit_code == 1
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr


def test_an_address_of_another_machine_is_refused(cli: Callable[..., Result], db: Path) -> None:
    assert cli("serve", "--address", "192.0.2.1", "--db", db).exit_code == 1


def test_a_port_is_found_when_none_is_given(monkeypatch: pytest.MonkeyPatch, db: Path) -> None:
    started: list[tuple[str, int]] = []

    def run(_: Path, place: server.Place, __: list[str]) -> int:
        started.append((place.address, place.port))
        return 0

    monkeypatch.setattr(server, "_run", run)
    monkeypatch.setattr(server, "_problem", lambda _, port: "" if port == server.FIRST_PORT + 2 else "taken")
    monkeypatch.setenv("STALLSCOPE_DB", "will be replaced")
    assert server.serve(db=db) == 0
    assert started == [("127.0.0.1", server.FIRST_PORT + 2)]
    assert os.environ["STALLSCOPE_DB"] == str(db)


def test_listening_to_others_is_warned_about(
    monkeypatch: pytest.MonkeyPatch, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_run", lambda *_: 0)
    monkeypatch.setenv("STALLSCOPE_DB", "will be replaced")
    server.serve(db=db, address="0.0.0.0", port=_free_port())
    assert "no login" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "token", "said"),
    [
        ({}, "", ["everyone on this machine may read and change", "reading without a token"]),
        ({"read_only": True}, "", ["everyone on this machine may read, without"]),
        ({"address": "0.0.0.0"}, "", ["everyone who reaches this address", "off, as no token is set"]),
        ({}, "t" * 20, ["those with a token: 1 editor, 0 viewers"]),
    ],
)
def test_the_start_says_what_is_open_to_whom(
    monkeypatch: pytest.MonkeyPatch, db: Path, capsys: pytest.CaptureFixture[str], options: dict[str, object],
    token: str, said: list[str],
) -> None:  # fmt: skip
    Database(db).close()
    monkeypatch.setattr(server, "_run", lambda *_: 0)
    texts: list[str] = []
    monkeypatch.setattr(server, "say_when_ready", lambda *given: texts.append(given[2]))
    monkeypatch.setenv("STALLSCOPE_DB", "will be replaced")
    monkeypatch.setenv("STALLSCOPE_READ_ONLY", "false")
    if token:
        monkeypatch.setenv("STALLSCOPE_API_TOKEN", token)
    server.serve(db=db, port=_free_port(), **options)  # type: ignore[arg-type]
    assert all(one in texts[0] for one in said), texts
    assert token not in texts[0] or not token


def test_a_server_behind_a_proxy_is_warned_about_by_the_names_it_is_asked_by(
    monkeypatch: pytest.MonkeyPatch, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "_run", lambda *_: 0)
    monkeypatch.setattr(server, "say_when_ready", lambda *_: None)
    monkeypatch.setenv("STALLSCOPE_DB", "will be replaced")
    server.serve(db=db, port=_free_port(), hosts=["stalls.example.org"])
    said = capsys.readouterr().err
    assert "whatever passes requests for stalls.example.org on to it" in said
    assert "leave out --host" in said


def test_the_address_is_said_once_it_answers(capsys: pytest.CaptureFixture[str]) -> None:
    port = _free_port()
    waiting = server.say_when_ready("0.0.0.0", port, "here\n")
    time.sleep(0.3)
    assert capsys.readouterr().out == ""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        waiting.join(10)
    assert capsys.readouterr().out == "here\n"


def test_signing_in_needs_what_it_needs_before_anybody_tries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.toml"
    secrets.write_text('[auth]\nclient_id = "x"\n')
    real = importlib.util.find_spec
    for missing in ("authlib", "httpx"):
        monkeypatch.setattr(
            importlib.util, "find_spec",
            lambda name, *rest, gone=missing: None if name == gone else real("json") if name in server.LOGIN_NEEDS
            else real(name, *rest),
        )  # fmt: skip
        with pytest.raises(StallScopeError, match=missing) as caught:
            server.login([str(secrets)])
        assert "stallscope[login]" in caught.value.cure
    secrets.write_text("[other]\n")
    assert not server.login([str(secrets)])
