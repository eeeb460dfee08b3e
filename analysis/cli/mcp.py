"""The command that answers assistants: mcp."""

from __future__ import annotations

import importlib.util

import typer

from analysis.cli.options import DbOption
from analysis.cli.running import opened
from analysis.errors import StallScopeError


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("mcp")(mcp)


def mcp(*, db: DbOption = None) -> None:
    """Answer an assistant by the Model Context Protocol, over standard input and output; nothing is written.

    It needs `pip install 'stallscope[mcp]'`. In an assistant's settings the command is `stallscope` with the arguments
    `mcp --db FILE`.
    """
    if importlib.util.find_spec("mcp") is None:
        from analysis.ui.api.assistant import INSTALL

        raise StallScopeError("the Model Context Protocol is not installed", f"Install it with `{INSTALL}`.")
    import anyio

    from analysis.ui.api.assistant import talk

    with opened(db) as database:
        anyio.run(talk, database)
