"""Runs a command: opens the database, prints the answer in one form, turns errors into a sentence and a code."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from analysis.errors import NotFoundError, StallScopeError, UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.store.database import Database

DONE, REFUSED, WRONG_USAGE, THRESHOLD_CROSSED, INTERRUPTED = 0, 1, 2, 3, 130


@dataclass(frozen=True)
class Answer:
    """What a command found out.

    Attributes
    ----------
    document : object
        What ``--json`` prints; anything that `analysis.report.plain.plain` can convert.
    show : callable
        Prints the same for a person.
    code : int
        Exit code.
    pieces : callable, optional
        Gives the rows of the document one piece after the other, where ``--json`` prints more than should be held.
    """

    document: Any
    show: Callable[[Screen], None]
    code: int = DONE
    pieces: Callable[[], Iterator[Any]] | None = None


class StallScopeGroup(TyperGroup):
    """The top of the command tree: catches what commands raise, so that scripts meet only documented exit codes."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and end the process with its exit code."""
        given = list(sys.argv[1:] if args is None else args)
        run = functools.partial(
            super().main,
            args=given,
            prog_name=prog_name,
            complete_var=complete_var,
            standalone_mode=False,
            windows_expand_args=windows_expand_args,
            **extra,
        )
        if not standalone_mode:
            return run()
        sys.exit(_guarded(run, as_json=_wants_json(given)))


def _wants_json(arguments: Sequence[str]) -> bool:
    """Say whether JSON was asked for, even where the arguments are too broken to parse."""
    for argument in arguments:
        if argument == "--":
            return False
        if argument == "--json":
            return True
    return False


def _guarded(run: Callable[[], Any], *, as_json: bool) -> int:
    try:
        result = run()
    except StallScopeError as error:
        sys.stderr.write(f"Error: {_one_line(error.sentence)}\n")
        return _refuse(error.sentence, WRONG_USAGE if isinstance(error, UsageError) else REFUSED, as_json=as_json)
    except (typer.Abort, KeyboardInterrupt):
        result = INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python would complain again when it flushes at exit.
        with contextlib.suppress(OSError):
            sys.stdout = Path("/dev/null").open("w")  # noqa: SIM115
        return DONE
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "show"):
            error.show()
            return _refuse(error.format_message(), WRONG_USAGE, as_json=as_json)
        if type(error).__name__ == "CatalogException":
            told = _one_line(str(error))[:200]
            sentence = (
                f"The tables of the database are not those of the schema that it names ({told}). "
                "Restore a backup with `stallscope restore`, or name another file with --db."
            )
            sys.stderr.write(f"Error: {sentence}\n")
            return _refuse(sentence, REFUSED, as_json=as_json)
        traceback.print_exc()
        sentence = (
            f"StallScope failed: {type(error).__name__}: {error}. This is a fault of StallScope, not of your input."
        )
        return _refuse(sentence, REFUSED, as_json=as_json)
    if result == INTERRUPTED:
        sys.stderr.write("Stopped.\n")
        return _refuse("Stopped before it was done.", INTERRUPTED, as_json=as_json)
    return result if isinstance(result, int) else DONE


def _refuse(sentence: str, code: int, *, as_json: bool) -> int:
    if as_json:
        _write_json({"error": _one_line(sentence)})
    return code


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


def _write_json(document: Any) -> None:
    from analysis.report.plain import to_json

    sys.stdout.write(to_json(document) + "\n")
    sys.stdout.flush()


def answers(function: Callable[..., Answer]) -> Callable[..., None]:
    """Make a command of a function that returns an `Answer`.

    Whatever libraries print while it runs goes to standard error: standard output belongs to the answer.
    """

    @functools.wraps(function)
    def run(**options: Any) -> None:
        from analysis.cli.screen import Screen
        from analysis.reference import origin
        from analysis.report.plain import json_list, to_json

        with contextlib.redirect_stdout(sys.stderr):
            asked = _ASKED.set(options.get("dataset"))
            try:
                answer = function(**options)
            finally:
                _ASKED.reset(asked)
            pieces = answer.pieces if options.get("as_json") else None
            text = to_json(answer.document) if options.get("as_json") and pieces is None else None
        if pieces is not None:
            sys.stdout.writelines(json_list(pieces()))
        elif text is None:
            screen = Screen()
            # One place for all commands: whoever shows simulated numbers says so first.
            if said := origin.heading(answer.document):
                screen.line(said, style="bold")
            answer.show(screen)
        else:
            sys.stdout.write(text + "\n")
        sys.stdout.flush()
        if answer.code != DONE:
            raise typer.Exit(answer.code)

    return run


#: The data set that the running command is about; None for all.
_ASKED: ContextVar[str | None] = ContextVar("asked", default=None)


@contextlib.contextmanager
def opened(db: Path | None, *, must_exist: bool = True, say_left_out: bool = True) -> Iterator[Database]:
    """Open the database that the user means.

    Parameters
    ----------
    db : Path or None
        As given with ``--db``; None for the one of the settings.
    must_exist : bool
        Whether the command only reads, so that a mistyped name is an error and not an empty database.
    say_left_out : bool
        Whether to say on standard error what the user left out of the figures that a reading command gives.

    Raises
    ------
    NotFoundError
        If it must exist and does not.
    """
    from analysis.settings import get_settings
    from analysis.store.database import Database

    path = (db or get_settings().db).expanduser()
    if must_exist and not path.exists():
        raise NotFoundError(
            f"there is no database at {path}",
            "Make one with `stallscope import FILE` or `stallscope datasets load NAME`, or name another with --db.",
        )
    with Database(path) as database:
        if must_exist and say_left_out:
            _say_left_out(database)
        yield database


def _say_left_out(database: Database) -> None:
    from analysis.store.filters import Filter
    from analysis.store.queries import exclusions

    asked = _ASKED.get()
    decided = exclusions.decisions(database, asked if isinstance(asked, str) else None)
    for dataset in decided["dataset"].unique():
        said = exclusions.said(database, Filter(datasets=(str(dataset),)))
        if said:
            sys.stderr.write(f"Data set {dataset}: {_one_line(said)}\n")


def progress_line() -> Callable[[float, str], None]:
    """Return a progress callback: one line that is rewritten on a terminal, a line now and then in a pipe."""
    if not sys.stderr.isatty():
        return _sparse_lines()

    def report(fraction: float, message: str) -> None:
        end = "\n" if fraction >= 1 else ""
        sys.stderr.write(f"\r\x1b[2K{min(max(fraction, 0.0), 1.0):4.0%}  {message[:100]}{end}")
        sys.stderr.flush()

    return report


#: Seconds between two lines of progress that nobody watches on a terminal.
_PIPE_SECONDS = 15.0


def _sparse_lines() -> Callable[[float, str], None]:
    said = time.monotonic()

    def report(fraction: float, message: str) -> None:
        nonlocal said
        if time.monotonic() - said >= _PIPE_SECONDS:
            said = time.monotonic()
            sys.stderr.write(f"{min(max(fraction, 0.0), 1.0):4.0%}  {message[:100]}\n")
            sys.stderr.flush()

    return report
