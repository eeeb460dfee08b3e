"""The questions of the programming interface as tools of an assistant, by the Model Context Protocol.

Every operation that only reads is one tool, with the same fields, answers and refusals; what writes is not offered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio
from pydantic import ValidationError

from analysis.errors import StallScopeError
from analysis.logs import get_logger
from analysis.store.database import Database
from analysis.ui.api import operations
from analysis.ui.api.operations import OPERATIONS, Operation, Rendered

if TYPE_CHECKING:
    from mcp.server import Server

#: What installs the protocol.
INSTALL = "pip install 'stallscope[mcp]'"

#: What an assistant is told before it asks.
INSTRUCTIONS = (
    "StallScope says which training jobs can share a GPU, and what each of them will pay for it. Begin with `datasets` "
    "for the names to ask by. S is co-run time over solo time: 1.34 is a third longer. A verdict is share, don't or "
    "measure first, always at a limit; pass on what it rests on (measured, predicted, simulated) and how many runs "
    "stand behind it. Answers marked simulated were made by a simulator and measured on no GPU."
)

_log = get_logger(__name__)


def offered() -> Iterator[Operation]:
    """Yield the operations that an assistant may ask: those that read, and answer with values."""
    return (one for one in OPERATIONS if one.answer is not None and not one.writes and one.name != "report")


def ask(database: Database, name: str, fields: dict[str, Any]) -> Any:
    """Answer one question.

    Parameters
    ----------
    database : Database
        The open database.
    name : str
        Name of an operation.
    fields : dict
        As its question has them.

    Raises
    ------
    StallScopeError
        If there is no such operation, the fields don't fit, or the question has no answer.
    """
    wanted = next((one for one in offered() if one.name == name), None)
    if wanted is None:
        raise StallScopeError(f"there is no tool {name!r}", f"There are {', '.join(one.name for one in offered())}.")
    try:
        asked = wanted.question.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the question"
        raise StallScopeError(f"{place}: {first['msg']}", f"The tool {name} describes its fields.") from error
    found = operations.answer(wanted, database, asked)
    return found.text if isinstance(found, Rendered) else found


def server(database: Database) -> Server[Any]:
    """Return the server of the protocol; whoever runs it chooses how it talks.

    Parameters
    ----------
    database : Database
        The open database; it is only read.
    """
    from importlib.metadata import version

    import mcp_types as types
    from mcp.server import Server

    async def tools(_: Any, __: Any) -> types.ListToolsResult:
        reads = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=one.name, description=one.summary, input_schema=one.question.model_json_schema(),
                    annotations=reads,
                )
                for one in offered()
            ]
        )  # fmt: skip

    async def call(_: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            found = await anyio.to_thread.run_sync(ask, database, asked.name, dict(asked.arguments or {}))
        except StallScopeError as error:
            return types.CallToolResult(content=[types.TextContent(text=error.sentence)], is_error=True)
        except Exception:
            _log.exception("a tool failed", tool=asked.name)
            text = "This did not work, through no fault of yours. The log of `stallscope mcp` says more."
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        text = json.dumps(found, allow_nan=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content={"answer": found})

    return Server(
        "stallscope", version=version("stallscope"), instructions=INSTRUCTIONS, on_list_tools=tools, on_call_tool=call
    )


async def talk(database: Database) -> None:
    """Answer an assistant over standard input and output until it hangs up."""
    from mcp.server.stdio import stdio_server

    made = server(database)
    async with stdio_server() as (incoming, outgoing):
        await made.run(incoming, outgoing, made.create_initialization_options())
