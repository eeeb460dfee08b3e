"""An assistant gets the questions that read, with the answers and refusals of the programming interface."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, ClientSession, StdioServerParameters, stdio_client

from analysis.ingest.importer import import_paths
from analysis.settings import asset
from analysis.store.database import Database
from analysis.ui.api import assistant, operations
from tests.conftest import ROOT
from tests.pages.files import GPU, JOBS, MECHANISM, all_files

#: A question for each tool, with jobs of the data set that `files` writes.
PAIR = list(JOBS)[:2]
QUESTIONS: dict[str, dict[str, Any]] = {
    "datasets": {},
    "models": {},
    "stalls": {"dataset": "own"},
    "matrix": {"dataset": "own", "gpu": GPU},
    "predict": {"dataset": "own", "gpu": GPU, "jobs": PAIR, "mechanism": MECHANISM},
    "predict-sets": {"dataset": "own", "gpu": GPU, "sets": [PAIR]},
    "plan": {"dataset": "own", "gpus": {GPU: 2}, "jobs": PAIR},
    "may-join": {"dataset": "own", "gpu": GPU, "running": PAIR[:1], "workload": PAIR[1]},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assistant")
    with Database(folder / "own.duckdb") as opened:
        assert [one.status for one in import_paths(opened, all_files(folder))] == ["loaded"] * 3
    return folder / "own.duckdb"


@pytest.fixture
def loaded(path: Path) -> Iterator[Database]:
    with Database(path, read_only=True) as opened:
        yield opened


def talking(database: Database, work: Callable[[Client], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client(assistant.server(database)) as client:
            return await work(client)

    return anyio.run(run)


def test_tools_are_the_operations_that_read(loaded: Database) -> None:
    found = talking(loaded, lambda client: client.list_tools()).tools
    names = [tool.name for tool in found]
    assert names == [one.name for one in operations.OPERATIONS if not one.writes and one.name != "report"]
    assert set(QUESTIONS) | {"explain", "split"} == set(names)
    for tool in found:
        assert tool.annotations.read_only_hint
        assert tool.description
        assert all(field.get("description") for field in tool.input_schema.get("properties", {}).values())
    chapter = asset("data", "guide", "assistants.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", chapter, re.MULTILINE)) == set(names)


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_those_of_the_programming_interface(name: str, loaded: Database) -> None:
    found = talking(loaded, lambda client: client.call_tool(name, QUESTIONS[name]))
    assert not found.is_error, found.content
    wanted = next(one for one in operations.OPERATIONS if one.name == name)
    expected = operations.answer(wanted, loaded, wanted.question.model_validate(QUESTIONS[name]))
    assert json.loads(found.content[0].text) == json.loads(json.dumps(expected))
    assert found.structured_content["answer"] == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("matrix", {"dataset": "own", "gpu": "V100"}, "V100"),
        ("predict", {"dataset": "own", "gpu": GPU, "jobs": ["nobody", PAIR[0]]}, "nobody"),
        ("predict", {"dataset": "own", "gpu": GPU}, "jobs"),
        ("stalls", {"dataset": "own", "colour": "red"}, "colour"),
        ("import", {}, "no tool 'import'"),
        ("report", {"dataset": "own"}, "no tool 'report'"),
    ],
)  # fmt: skip
def test_refusals_are_sentences(name: str, fields: dict[str, Any], said: str, loaded: Database) -> None:
    found = talking(loaded, lambda client: client.call_tool(name, fields))
    assert found.is_error
    assert said in found.content[0].text
    assert "Traceback" not in found.content[0].text


def test_the_command_talks_over_its_streams_and_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "analysis.cli", "mcp", "--db", str(path)], env=environment
    )

    async def run() -> tuple[list[str], Any]:
        async with stdio_client(command) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            tools = await session.list_tools()
            return [tool.name for tool in tools.tools], await session.call_tool("datasets", {})

    names, found = anyio.run(run)
    assert "predict" in names
    assert [row["name"] for row in json.loads(found.content[0].text)] == ["own"]
    assert path.read_bytes() == before
