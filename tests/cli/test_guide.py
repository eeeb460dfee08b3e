"""The guide and the commands say the same, and no documented field is missing from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from analysis.cli import app
from analysis.cli.evaluate import EVALUATION_FIELDS
from analysis.cli.import_files import IMPORT_FIELDS
from analysis.cli.options import Protocol
from analysis.cli.stalls import STALL_FIELDS
from analysis.predict.evaluate.protocols import PROTOCOLS
from analysis.settings import asset

GUIDE = asset("data", "guide", "command-line.md").read_text(encoding="utf-8")

#: The commands that scripts depend on, each with the options it must have beside --db.
CONTRACT = {
    "import": {"--workload", "--gpu", "--dataset", "--json"},
    "datasets list": {"--json"},
    "datasets load": {"--file", "--json"},
    "check": {"--dataset", "--json"},
    "stalls": {"--by", "--gpu", "--json"},
    "compare": {"--fail-above", "--json"},
    "matrix": {"--dataset", "--gpu", "--mechanism", "--json"},
    "evaluate": {
        "--dataset", "--protocol", "--gpu", "--train-gpu", "--runs", "--predictor", "--include-flagged", "--json",
    },
    "folds": {"--dataset", "--protocol", "--out", "--json"},
    "rank": {"--predictions", "--json"},
    "train": {"--dataset", "--gpu", "--mechanism", "--predictor", "--json"},
    "models": {"--json"},
    "predict": {"--model", "--gpu", "--mechanism", "--job", "--json"},
    "explain": {"--model", "--gpu", "--job", "--json"},
    "report": {"--dataset", "--model", "--out", "--json"},
    "doctor": {"--json"},
    "serve": {"--port", "--address"},
}  # fmt: skip


def _commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    command = command or get_command(app)
    if not hasattr(command, "commands"):
        yield " ".join(path), command
        return
    for name, below in command.commands.items():
        yield from _commands(below, (*path, name))


def _options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts if name.startswith("--")} - {"--help"}


def _sections() -> dict[str, str]:
    parts = re.split(r"^## stallscope (.+)$", GUIDE, flags=re.MULTILINE)
    return {name.strip(): text for name, text in zip(parts[1::2], parts[2::2], strict=True)}


COMMANDS = dict(_commands())


@pytest.mark.parametrize("name", sorted(CONTRACT))
def test_every_command_of_the_contract_is_there(name: str) -> None:
    assert CONTRACT[name] | {"--db"} <= _options(COMMANDS[name])


def test_the_guide_names_the_commands_that_exist() -> None:
    assert set(_sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_guide_names_the_options_that_exist(name: str) -> None:
    rows = "".join(line for line in _sections()[name].splitlines() if line.startswith("|"))
    assert set(re.findall(r"`(--[a-z-]+)", rows)) == _options(COMMANDS[name])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_explains_itself(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.help, parameter.name


def test_the_fields_in_the_guide_are_those_printed() -> None:
    plain = " ".join(GUIDE.split())
    for fields in (IMPORT_FIELDS, STALL_FIELDS, EVALUATION_FIELDS):
        assert "{" + ", ".join(fields) in plain


def test_the_protocols_are_those_of_the_engine() -> None:
    assert {protocol.value for protocol in Protocol} == set(PROTOCOLS)
    for protocol in Protocol:
        assert f"`{protocol.value}`" in _sections()["evaluate"]
