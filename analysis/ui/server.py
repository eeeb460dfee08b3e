"""Starts the browser application from a checkout or from an installed wheel."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from analysis.errors import StallScopeError
from analysis.settings import asset, get_settings
from analysis.store.database import Database

#: Streamlit's own port, tried first so that the address in the README is right.
FIRST_PORT = 8501
_TRIES = 50
_LOCAL = {"127.0.0.1", "localhost", "::1"}


def serve(*, db: Path | None = None, address: str = "127.0.0.1", port: int | None = None) -> int:
    """Run the application until it is stopped by Ctrl-C or a termination signal.

    Streamlit finds the shipped configuration beside ``app.py``, where it outranks a configuration of the directory the
    user happens to be in; address and port are given as flags, which outrank everything.

    Parameters
    ----------
    db : Path, optional
        The database file; that of the settings when left out.
    address : str
        Interface to listen on.
    port : int, optional
        Port to listen on; the first free one from 8501 on when left out.

    Returns
    -------
    int
        Exit code, 0 after an orderly stop.

    Raises
    ------
    DatabaseBusyError, DatabaseVersionError
        If the database can't be opened: better said here than on every page.
    StallScopeError
        If the port is taken or the address is not one of this machine.
    """
    if db is not None:
        os.environ["STALLSCOPE_DB"] = str(db.expanduser().resolve())
        get_settings.cache_clear()
    path = get_settings().db
    Database(path).close()
    app = asset("app.py")
    port = _checked(address, port) if port is not None else _free(address)
    if address not in _LOCAL:
        sys.stderr.write(
            f"Others can reach this address. There is no login unless you configure one: anyone who reaches {address} "
            "can read and change the database.\n"
        )
    shown = f"[{address}]" if ":" in address else address
    sys.stdout.write(f"StallScope at http://{shown}:{port}\nDatabase {path}\nCtrl-C ends it.\n")
    sys.stdout.flush()
    return _run(app, address, port)


def _run(app: Path, address: str, port: int) -> int:
    from streamlit.runtime.pages_manager import PagesManager
    from streamlit.web import cli as streamlit_cli

    # app.py registers its pages. Until it has run once, Streamlit takes the folder pages/ for its older convention and
    # tells the first visitor of a page's address that there is no such page.
    PagesManager.uses_pages_directory = False
    flags = ["--server.address", address, "--server.port", str(port), "--logger.hideWelcomeMessage", "true"]
    try:
        streamlit_cli.main(["run", str(app), *flags], prog_name="stallscope serve", standalone_mode=False)
    except KeyboardInterrupt:
        return 0
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    return 0


def _checked(address: str, port: int) -> int:
    problem = _problem(address, port)
    if problem:
        raise StallScopeError(
            f"port {port} on {address} can't be used: {problem}",
            "Stop the program that holds it, or give another with --port and --address.",
        )
    return port


def _free(address: str) -> int:
    problem = ""
    for port in range(FIRST_PORT, FIRST_PORT + _TRIES):
        problem = _problem(address, port)
        if not problem:
            return port
    raise StallScopeError(
        f"no port from {FIRST_PORT} to {FIRST_PORT + _TRIES - 1} on {address} can be used: {problem}",
        "Give a free one with --port, and one of this machine's own addresses with --address.",
    )


def _problem(address: str, port: int) -> str:
    """Say why one can't listen there, or return an empty string."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the server will: a port whose last connections are still winding down is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        return error.strerror or str(error)
    return ""
