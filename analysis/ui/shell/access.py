"""Who looks at a page, and whether they may change anything: the one place that pages ask.

Three lines keep a reader from writing. Controls that change something are off for them; the function behind such a
control is marked by `editing`, which refuses; and the database asks `guard` before every write that a page makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from analysis.errors import NotAllowedError
from analysis.settings import get_settings
from analysis.ui.shell import markdown, roles
from analysis.ui.shell.roles import Role

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
    return roles.current().of(str(user.get("email") or ""))


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
