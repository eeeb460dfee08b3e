"""Starts the browser application from an installed StallScope."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from analysis.errors import StallScopeError
from analysis.settings import asset, get_settings
from analysis.store.database import Database

#: Streamlit's own port, tried first so that the address in the README is right.
FIRST_PORT = 8501


def serve(*, db: Path | None = None, address: str = "127.0.0.1", port: int | None = None) -> int:
    """Run the server until it is stopped.

    Parameters
    ----------
    db : Path, optional
        The database; by default that of the settings.
    address : str
        Interface to listen on.
    port : int, optional
        Port; by default 8501 or the next free one.

    Returns
    -------
    int
        Exit status.

    Raises
    ------
    DatabaseBusyError
        If another process holds the database.
    StallScopeError
        If no port is free.
    """
    if db is not None:
        os.environ["STALLSCOPE_DB"] = str(db.expanduser().resolve())
        get_settings.cache_clear()
    # Opened once beforehand: a database that can't be opened is told here, not in the browser.
    Database(get_settings().db).close()

    from streamlit.web import cli

    arguments = ["run", str(asset("app.py")), "--server.address", address, "--server.port", str(port or free_port(address))]
    try:
        cli.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as stopped:
        return stopped.exit_code
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else 1
    return 0


def free_port(address: str, first: int = FIRST_PORT, tries: int = 100) -> int:
    """Return the first port from `first` on that can be listened on.

    Raises
    ------
    StallScopeError
        If none of them can.
    """
    for port in range(first, first + tries):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise StallScopeError(f"no port from {first} to {first + tries - 1} is free on {address}", "Give one with --port.")
