"""Says on start what is open to whom, and where the server answers once it does."""

from __future__ import annotations

import socket
import sys
import threading
import time

from analysis.settings import get_settings
from analysis.ui.api.tokens import Tokens
from analysis.ui.shell import roles
from analysis.ui.shell.roles import Role

#: Seconds between two looks at whether the server answers, and after which nobody waits any more.
_LOOK, _LONGEST = 0.1, 300.0

#: Addresses that mean every interface, and where such a server answers on this machine.
_EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - compared with, not listened on


def who_may(tokens: Tokens, *, exposed: bool, login: bool) -> str:
    """Return two sentences: who may look at the pages and change something, and the same of programs."""
    read_only = get_settings().read_only
    if login:
        named = roles.current()
        pages = f"those who sign in: {_counted(len(named.editors), 'editor')}, {_counted(len(named.viewers), 'viewer')}"
        pages += ", none of whom may change anything" if read_only else " by address or pattern"
    else:
        who = "everyone who reaches this address" if exposed else "everyone on this machine"
        pages = f"{who} may {'read' if read_only else 'read and change everything'}, without signing in"
    kept = list(tokens.roles.values())
    if kept:
        programs = f"those with a token: {_counted(kept.count(Role.EDITOR), 'editor')}, "
        programs += _counted(kept.count(Role.VIEWER), "viewer")
        programs += "; nothing can be written" if read_only else ""
    elif exposed or login:
        programs = "off, as no token is set"
    else:
        programs = "reading without a token, as only this machine reaches it; nothing can be written without one"
    return f"Pages: {pages}.\nPrograms: {programs}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def say_when_ready(address: str, port: int, text: str) -> threading.Thread:
    """Print a text once the server answers: whoever waits for the line can connect then."""

    def wait() -> None:
        end = time.monotonic() + _LONGEST
        while time.monotonic() < end:
            try:
                with socket.create_connection((_EVERY.get(address, address), port), timeout=1):
                    break
            except OSError:
                time.sleep(_LOOK)
        sys.stdout.write(text)
        sys.stdout.flush()

    thread = threading.Thread(target=wait, name="stallscope-announcing", daemon=True)
    thread.start()
    return thread
