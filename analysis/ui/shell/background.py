"""A long reading of the database beside the page's run: the page answers meanwhile, and then shows the result.

What writes goes to the job runner; this is for results that only a page needs, and that readers may ask for too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from analysis.ui.shell import markdown
from analysis.ui.shell.errors import guarded
from analysis.ui.shell.resources import call_key

P = ParamSpec("P")
T = TypeVar("T")

#: A page waits so long by itself, so that quick results come at once.
PATIENCE_SECONDS = 0.7

POLL_SECONDS = 0.5

#: Results that are kept.
_MOST = 20


@dataclass
class _Desk:
    """One worker for all sessions, and what it was asked for."""

    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="page"))
    asked: dict[str, tuple[Future[Any], float]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def ask(self, key: str, work: Callable[[], Any]) -> tuple[Future[Any], float]:
        """Return the work of a key and when it was begun; it is begun once."""
        with self.lock:
            if key not in self.asked:
                for old in [one for one, (future, _) in self.asked.items() if future.done()][: -_MOST or None]:
                    del self.asked[old]
                self.asked[key] = (self.pool.submit(work), time.monotonic())
            return self.asked[key]

    def forget(self, key: str) -> None:
        """Let a key be begun anew."""
        with self.lock:
            self.asked.pop(key, None)


@st.cache_resource(show_spinner=False)
def _desk() -> _Desk:
    return _Desk()


def result(words: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return what a pure reader of the database says, once it has said it; the same call is made once.

    Parameters
    ----------
    words : str
        What is going on, shown as long as it does.
    function : callable
        Its first argument is the database; the others need a ``repr`` that tells them apart.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    object or None
        None while the work goes on; the page then runs again by itself.
    """
    key = repr(call_key(function, *args, **kwargs))
    future, since = _desk().ask(key, lambda: function(*args, **kwargs))
    wait([future], timeout=PATIENCE_SECONDS)
    if future.done():
        if future.exception() is not None:  # asked again, it may succeed
            _desk().forget(key)
        found: T = future.result()
        return found
    _poll(key, words, since)
    return None


@st.fragment(run_every=POLL_SECONDS)
@guarded
def _poll(key: str, words: str, since: float) -> None:
    found = _desk().asked.get(key)
    if found is None or found[0].done():
        st.rerun()
    with st.container(border=True, key="page-work"):
        st.markdown(f":material/hourglass_top: {markdown.plain(words)} · {time.monotonic() - since:.0f} s")
        st.caption("The rest of the page can be used meanwhile.")
