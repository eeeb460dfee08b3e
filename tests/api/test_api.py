"""The programming interface answers what its own document describes, and refuses everything else in one form."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from analysis.report import build
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.api import openapi, uploads
from analysis.ui.server import server
from analysis.ui.server.shield import Shield
from tests.api.conftest import EDITOR, VIEWER, Client, Serve, form
from tests.pages.files import GPU, JOBS

PAIR = list(JOBS)[:2]
VALID: dict[str, Any] = {
    "dataset": "own", "gpu": GPU, "jobs": PAIR, "job": PAIR, "gpus": {GPU: 2}, "workload": PAIR[0], "running": PAIR[1:],
    "sets": [PAIR],
}  # fmt: skip

#: What hostile or careless callers put where a name belongs.
HOSTILE = (
    "", "x" * 5_000, "\x00", "'; DROP TABLE source; --", "own' OR 1", "../../etc/passwd", "read_csv('/etc/passwd')",
    "\U0001f600", "\ufffd",
)  # fmt: skip
BROKEN_BODIES = (
    b"", b"null", b"[]", b"{", b'{"model": 1}', b"[" * 100_000, b"\xff\xfe", b'{"model": "\\ud800"}', b"1e999",
    b'{"jobs": "a"}', b'{"jobs": []}', b'{"a": 1}', b"{}" * 9, b" " * (2 << 20),
)  # fmt: skip
BROKEN_FORMS = (
    b"", b"--edge", b"--edge--\r\n", b"--other\r\n\r\n\r\n--other--\r\n", b"--edge\r\n\r\nx\r\n--edge--\r\n",
    b"--edge\r\nContent-Disposition: form-data\r\n\r\nx\r\n--edge--\r\n",
    b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\ncut off',
    b'--edge\r\nContent-Disposition: form-data; name="other"; filename="x"\r\n\r\nx\r\n--edge--\r\n',
)  # fmt: skip


def _refused(answer: tuple[int, Any]) -> None:
    status, body = answer
    assert 400 <= status < 500, answer
    assert set(body) == {"error", "cure"}
    assert body["error"]
    assert body["cure"]
    assert "Traceback" not in json.dumps(body)


def _described(client: Client) -> list[tuple[str, str, dict[str, Any]]]:
    status, document = client.ask("GET", openapi.PATH)
    assert status == 200
    assert document["openapi"].startswith("3.1")
    return [
        (path, method.upper(), one) for path, methods in document["paths"].items() for method, one in methods.items()
    ]


def test_every_operation_answers_what_is_valid_and_refuses_what_is_not(known: Path, serve: Serve) -> None:
    with serve(api_token=EDITOR) as client:
        client.token = EDITOR
        described = _described(client)
        assert {one["operationId"] for _, _, one in described} == {
            "datasets", "models", "matrix", "predict", "predict-sets", "plan", "may-join", "split", "report", "import",
            "stalls", "explain",
        }  # fmt: skip
        VALID["model"] = client.ask("GET", "/api/v1/models")[1][0]["model_id"]
        for path, method, one in described:
            _drive(client, path, method, one)
        status, listed = client.ask("GET", "/api/v1/datasets")
        assert [row["name"] for row in listed] == ["own"], status
        for _, method, one in described:
            fields = one["responses"]["200"]["content"].get("application/json", {}).get("schema", {}).get("items", {})
            for row in {"datasets": listed, "models": client.ask("GET", "/api/v1/models")[1]}.get(
                one["operationId"], []
            ):
                assert fields["properties"], method
                assert set(fields["properties"]) <= set(row)
    with Database(known) as database:
        assert database.scalar("SELECT count(*) FROM source") == 3


def _drive(client: Client, path: str, method: str, one: dict[str, Any]) -> None:
    """Send an operation what its description says, then everything that it doesn't."""
    content = one.get("requestBody", {}).get("content", {})
    for other in {"GET", "POST", "DELETE", "PUT", "TRACE"} - {method}:
        _refused(client.ask(other, path))
    if "parameters" in one:
        _drive_query(client, path, one["parameters"])
    elif "application/json" in content:
        fields = content["application/json"]["schema"]["properties"]
        given = {name: VALID[name] for name in fields if name in VALID}
        status, answer = client.post(path, given)
        assert status == 200
        if one["operationId"] == "predict":
            rows = one["responses"]["200"]["content"]["application/json"]["schema"]["items"]["properties"]
            assert {"slowdown", "measured"} <= set(rows) <= set(answer[0])
        for body in BROKEN_BODIES:
            _refused(client.ask(method, path, body, {"Content-Type": "application/json"}))
        _refused(client.ask(method, path, json.dumps(given).encode(), {"Content-Type": "text/plain"}))
        for name in fields:
            for value in (*HOSTILE[:6], 1, ["x"] * 99):
                status, answer = client.post(path, {**given, name: ["x", value] if name == "jobs" else value})
                # A GPU or a mechanism of which nothing is known may still be asked about.
                assert status < 500, (name, value, answer)
                # A number that stands for a number is no fault.
                text = '"string"' in json.dumps(fields[name])
                if name in ("model", "jobs") or (text and (not isinstance(value, str) or not value)):
                    _refused((status, answer))
    else:
        assert "file" in content["multipart/form-data"]["schema"]["required"]
        for body in BROKEN_FORMS:
            _refused(client.ask(method, path, body, {"Content-Type": "multipart/form-data; boundary=edge"}))
        _refused(client.ask(method, path, b"x", {"Content-Type": "multipart/form-data"}))
        _refused(client.ask(method, path, b"x", {"Content-Type": "text/csv"}))
        _refused(client.upload({"a.txt": b"no table"}))
        _refused(client.upload({"a.csv": b"x"}, other="1"))
        for files, fields, cure in (
            ({f"{number}.csv": b"x" for number in range(501)}, {}, "at most 500"),
            ({"a.csv": b"x"}, {"workload": "w" * 5000}, "shorter"),
        ):
            status, answer = client.upload(files, **fields)
            assert (status, cure in answer["cure"]) == (413, True), answer
        _refused(client.upload({"a.csv": b"x"}, workload="a\x01b"))


def _drive_query(client: Client, path: str, parameters: list[dict[str, Any]]) -> None:
    names = [one["name"] for one in parameters]
    required = [one["name"] for one in parameters if one["required"]]
    pairs = [(name, VALID[name]) for name in required]
    status, _ = client.ask("GET", f"{path}?{urlencode(pairs)}")
    assert status == 200
    _refused(client.ask("GET", f"{path}?{urlencode([*pairs, ('no_such_field', '1')])}"))
    for name in required:
        _refused(client.ask("GET", f"{path}?{urlencode([one for one in pairs if one[0] != name])}"))
    for name in names:
        rest = [one for one in pairs if one[0] != name]
        for value in HOSTILE:
            status, body = client.ask("GET", f"{path}?{urlencode([*rest, (name, value)])}")
            # A filter that nothing meets may also be an empty answer; a made-up model or data set never is.
            assert (status == 200 and name not in required) or 400 <= status < 500, (name, value, status, body)
        assert client.ask("GET", f"{path}?{urlencode(rest)}&{name}=%ED%A0%80%FF")[0] < 500


def test_answers_are_those_of_the_engine(known: Path, serve: Serve) -> None:
    from analysis.interference.matrix import slowdown_matrix

    with serve() as client:
        status, found = client.ask("GET", f"/api/v1/matrix?dataset=own&gpu={quote(GPU)}")
        again = client.ask("GET", f"/api/v1/matrix?dataset=own&gpu={quote(GPU)}")[1]
        _, html = client.ask("GET", "/api/v1/report?dataset=own&format=html")
        for path in ("matrix/../../../etc/passwd", "../v1/matrix", "x/%2e%2e/matrix"):
            _refused(client.ask("GET", f"/api/v1/{path}"))
    assert status == 200
    assert again == found
    assert "Content-Security-Policy" in html
    with Database(known) as database:
        own = slowdown_matrix(database, "own", GPU).to_json()
    assert found["workloads"] == own["workloads"]
    assert found["slowdown"] == json.loads(json.dumps(own["slowdown"]))


def test_a_file_is_loaded_and_the_kept_answers_follow(known: Path, serve: Serve) -> None:
    rows = b"run,gpu,mechanism,workload,solo_throughput,corun_throughput\n" + b"".join(
        f"{run},{GPU},CUDA MPS,{job},10,{8 - run}\n".encode() for run in (1, 2) for job in ("new-a", "new-b")
    )
    with serve(api_token=EDITOR) as client:
        client.token = EDITOR
        question = f"/api/v1/matrix?dataset=sent&gpu={quote(GPU)}"
        assert client.ask("GET", question)[0] == 404
        status, reports = client.upload({"../../../tmp/runs.csv": rows}, dataset="sent")
        assert status == 200, reports
        assert [one["status"] for one in reports] == ["loaded"]
        assert client.upload({"again.csv": rows}, dataset="sent")[1][0]["status"] == "duplicate"
        assert client.ask("GET", question)[1]["workloads"] == ["new-a", "new-b"]
    assert not [one for one in (known.parent / "spool").rglob("*") if one.is_file()]


def test_who_may_do_what(known: Path, serve: Serve, tmp_path: Path) -> None:
    listed = tmp_path / "tokens"
    listed.write_text(f"# of the scheduler\nviewer {VIEWER}\neditor {EDITOR}\n")
    with serve() as client:
        assert client.ask("GET", "/api/v1/datasets")[0] == 200
        assert client.upload({"a.csv": b"x"})[0] == 403
    with serve(exposed=True) as client:
        assert client.ask("GET", "/api/v1/datasets")[0] == 403
    with serve(api_token_file=str(listed)) as client:
        for token, reads, writes in ((None, 401, 401), ("wrong" * 5, 401, 401), (VIEWER, 200, 403), (EDITOR, 200, 422)):
            client.token = token
            assert client.ask("GET", "/api/v1/datasets")[0] == reads
            assert client.upload({"a.csv": b"x"})[0] == writes


def test_nothing_is_written_where_it_runs_for_reading_only(known: Path, serve: Serve) -> None:
    before = known.read_bytes()
    with serve(api_token=EDITOR, read_only="true") as client:
        client.token = EDITOR
        assert client.ask("GET", "/api/v1/datasets")[0] == 200
        status, body = client.upload({"a.csv": b"x"})
        assert status == 403
        assert "reading only" in body["error"]
        assert client.ask("PUT", "/_stcore/upload_file/session/file", b"x")[0] == 403
    assert known.read_bytes() == before


def test_an_upload_is_limited(known: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "_FRAME", 1000)
    with serve(api_token=EDITOR, max_file_bytes="5000", max_files="3") as client:
        client.token = EDITOR
        assert client.upload({"a.csv": b"x" * 5500})[0] == 413
        body, kind = form({"a.csv": b"x" * 100})
        length = {"Content-Type": kind, "Content-Length": "99999999"}
        assert client.ask("POST", "/api/v1/import", body, length)[0] == 413
        assert client.upload({f"{number}.csv": b"x" for number in range(4)})[0] == 413
        monkeypatch.setattr(uploads, "MOST_AT_ONCE", 0)
        assert client.upload({"a.csv": b"x"})[0] == 429
    assert not [one for one in (known.parent / "spool").rglob("*") if one.is_file()]


def test_a_client_that_left_cancels_its_load(known: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless(_: object, work: object, progress: Callable[[float, str], None]) -> dict[str, object]:
        begun.set()
        try:
            while True:
                progress(0.5, "reading")
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(uploads, "load_all", endless)
    with serve(api_token=EDITOR) as client:
        body, kind = form({"a.csv": b"x"})
        asking = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        asking.request("POST", "/api/v1/import", body, {"Content-Type": kind, "Authorization": f"Bearer {EDITOR}"})
        assert begun.wait(60)
        asking.close()
        assert ended.wait(60)
        end = time.monotonic() + 60
        while any(path.is_file() for path in (get_settings().spool / "uploads").rglob("*")):
            assert time.monotonic() < end, "its bytes stay"
            time.sleep(0.05)


def test_names_of_hosts_are_limited(known: Path, serve: Serve) -> None:
    with serve(hosts=("localhost", "*.example.org")) as client:
        for host, status in (
            ("localhost", 200), ("LOCALHOST:99", 200), ("a.example.org", 200), ("example.org", 400), ("evil.test", 400),
            ("127.0.0.1", 400), ("localhost.evil.test", 400), ("[", 400), ("", 400),
        ):  # fmt: skip
            assert client.ask("GET", "/api/v1/datasets", headers={"Host": host})[0] == status, host
    assert Shield(lambda *_: None, ("::1",), lambda _: True).known("[::1]:8501")  # type: ignore[arg-type, return-value]


def test_the_server_s_own_counters_are_closed_where_readers_sign_in(known: Path, serve: Serve) -> None:
    for counters, status in ((True, 404), (False, 403)):  # without the pages there is nothing behind the path
        with serve(counters=counters) as client:
            assert client.ask("GET", "/_stcore/metrics")[0] == status


def test_a_report_is_made_once_and_not_for_a_model_that_is_not_there(
    known: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    whole = build.dataset_report
    monkeypatch.setattr(build, "dataset_report", lambda *given, **more: made.append(1) or whole(*given, **more))
    with serve() as client:
        address = "/api/v1/report?dataset=own&format=json"
        _refused(client.ask("GET", f"{address}&model=none"))
        assert not made
        assert client.ask("GET", address) == client.ask("GET", address)
        assert len(made) == 1


def test_where_it_listens_decides_what_is_open() -> None:
    assert not server.Place("127.0.0.1", 1).exposed
    assert server.Place("0.0.0.0", 1).allowed == ("*",)
    behind = server.Place("127.0.0.1", 1, ("stalls.example.org",))
    assert behind.exposed
    assert "stalls.example.org" in behind.allowed
    assert "*" not in behind.allowed
