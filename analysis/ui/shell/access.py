"""Who looks at a page, and whether they may change anything: the one place that pages ask.

Three lines keep a reader from writing. Controls that change something are off for them; the function behind such a
control is marked by `editing`, which refuses; and the database asks `guard` before every write that a page makes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from analysis.errors import NotAllowedError, UsageError, Where
from analysis.settings import Settings, get_settings
from analysis.ui.shell import markdown


class Role(StrEnum):
    """What someone may do."""

    NOBODY = "nobody"
    VIEWER = "viewer"
    EDITOR = "editor"


@dataclass(frozen=True)
class Roles:
    """Addresses, in lower case; ``*@example.org`` means all of a domain and ``*`` everybody who can sign in."""

    editors: frozenset[str]
    viewers: frozenset[str]

    def of(self, email: str | None) -> Role:
        """Return the role of an address; one that is not listed has none."""
        address = (email or "").strip().lower()
        if "@" not in address:
            return Role.NOBODY
        meant = {address, f"*{address[address.rindex('@') :]}", "*"}
        if meant & self.editors:
            return Role.EDITOR
        return Role.VIEWER if meant & self.viewers else Role.NOBODY


def current() -> Roles:
    """Return the roles as they are now.

    Raises
    ------
    UsageError
        If the file of roles can't be read: better nobody gets in than the wrong people do.
    """
    settings = get_settings()
    named = _file(settings.roles) if settings.roles is not None else Roles(frozenset(), frozenset())
    return Roles(named.editors | _listed(settings.editors), named.viewers | _listed(settings.viewers))


def anybody_named(settings: Settings) -> bool:
    """Say whether the settings name anyone who may sign in."""
    return bool(settings.roles or settings.editors.strip() or settings.viewers.strip())


def _listed(text: str) -> frozenset[str]:
    return _addresses(text.split(","))


def _addresses(given: Iterable[str]) -> frozenset[str]:
    return frozenset(address for one in given if (address := one.strip().lower()))


def _file(path: Path) -> Roles:
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise UsageError(
            f"the file of roles can't be read: {error.strerror or error}", "Check STALLSCOPE_ROLES.", Where(str(path))
        ) from error


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, _size: int) -> Roles:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the file of roles is no TOML: {error}", "Correct it.", Where(str(path))) from error
    unknown = set(content) - {"editors", "viewers"}
    lists = [content.get("editors", []), content.get("viewers", [])]
    if unknown or not all(isinstance(one, list) and all(isinstance(item, str) for item in one) for one in lists):
        raise UsageError(
            "the file of roles holds something else than the lists editors and viewers",
            'Write editors = ["ada@example.org"] and viewers = ["*@example.org"].',
            Where(str(path)),
        )
    return Roles(_addresses(lists[0]), _addresses(lists[1]))


P = ParamSpec("P")
T = TypeVar("T")

#: What is refused and the cure: to everybody, and to those who may only look.
READ_ONLY = ("This StallScope runs for reading only", "Ask whoever runs it where things can be changed.")
FOR_EDITORS = ("Only editors may change anything here", "Ask whoever runs this StallScope to name you one.")

#: Sessions whose reader may write: the only ones that may send a file.
_WRITERS: set[str] = set()


def login_configured() -> bool:
    """Say whether readers sign in: whether the secrets hold a section ``auth``."""
    return st.secrets.load_if_toml_exists() and "auth" in st.secrets


def role() -> Role:
    """Return what the reader of this page may do; work that no page runs in is the server's own and may write.

    Where nobody signs in, everybody who can reach the server may write, unless it runs for reading only.
    """
    found = _of_reader()
    return Role.VIEWER if found is Role.EDITOR and get_settings().read_only else found


def _of_reader() -> Role:
    if get_script_run_ctx(suppress_warning=True) is None or not login_configured():
        return Role.EDITOR
    user = st.user.to_dict()
    # A provider that says that the address was never checked lets anybody claim it.
    if not user.get("is_logged_in") or user.get("email_verified") is False:
        return Role.NOBODY
    return current().of(str(user.get("email") or ""))


def may_edit() -> bool:
    """Say whether the reader of this page may change anything."""
    return role() is Role.EDITOR


def why_not() -> str:
    """Return why the reader may not change anything, as a sentence."""
    return ". ".join(_refusal())


def _refusal() -> tuple[str, str]:
    return READ_ONLY if get_settings().read_only else FOR_EDITORS


def guard() -> None:
    """Refuse a write by a reader of a page who may only look; the database asks this before each.

    Raises
    ------
    NotAllowedError
        If the reader may not write.
    """
    if not may_edit():
        raise NotAllowedError(*_refusal())


def editing(function: Callable[P, T]) -> Callable[P, T]:
    """Mark a function that changes something: a reader who may only look gets a sentence instead."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        guard()
        return function(*args, **kwargs)

    return run


def button(label: str, *, disabled: bool = False, help: str | None = None, **options: Any) -> bool:
    """Draw a button that changes something; off, with the reason, for a reader who may only look."""
    allowed = may_edit()
    return st.button(label, disabled=disabled or not allowed, help=help if allowed else why_not(), **options)


def gate() -> None:
    """Let in who may read, and stop the page for everybody else before anything of the data is looked at."""
    found, context = role(), get_script_run_ctx(suppress_warning=True)
    if context is not None:
        (_WRITERS.add if found is Role.EDITOR else _WRITERS.discard)(context.session_id)
    if found is not Role.NOBODY:
        return
    st.title("StallScope", anchor=False)
    user = st.user.to_dict()
    if not user.get("is_logged_in"):
        st.markdown("Sign in to see which training jobs can share a GPU here.")
        for provider in _providers():
            label = "Sign in" if provider is None else f"Sign in with {markdown.plain(provider)}"
            st.button(label, type="primary", icon=":material/login:", on_click=st.login, args=[provider])
    else:
        name = markdown.plain(user.get("email") or user.get("name") or "someone without an e-mail address", 120)
        st.error(
            f"You are signed in as {name}, who is not on the list of this StallScope. Ask whoever runs it to add the "
            "address, or sign in as someone else.",
            icon=":material/block:",
        )
        st.button("Sign out", icon=":material/logout:", on_click=st.logout)
    st.stop()


def _providers() -> list[str | None]:
    """Return the names of the providers to sign in with; None for the one without a name."""
    section = st.secrets["auth"]
    named = [str(name) for name in section if hasattr(section[name], "keys")]
    return [*named] if named else [None]


def badge() -> None:
    """Say in the sidebar who is signed in and what they may do; nothing where everybody may do everything."""
    if not (login_configured() or get_settings().read_only):
        return
    with st.sidebar, st.container(key="access"):
        if get_settings().read_only:
            st.badge("Read only", icon=":material/lock:", color="gray", help=why_not())
        if not login_configured():
            return
        user = st.user.to_dict()
        st.caption(f"{markdown.plain(user.get('email') or user.get('name') or '', 80)} · {role()}")
        st.button("Sign out", icon=":material/logout:", type="tertiary", on_click=st.logout, key="sign-out")


def may_upload(session_id: str) -> bool:
    """Say whether a session may send a file to the server's memory: only where its reader may write."""
    if get_settings().read_only:
        return False
    return session_id in _WRITERS or not login_configured()
