"""The boundary around pages and fragments: a reader sees one sentence, the log sees the rest."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec

import streamlit as st

from analysis.errors import StallScopeError
from analysis.logs import get_logger
from analysis.ui.shell import markdown

P = ParamSpec("P")

_log = get_logger(__name__)


@contextmanager
def boundary(place: str) -> Iterator[None]:
    """Show an error as one sentence: its own if it was made for the user, else one with the number of the log entry.

    Parameters
    ----------
    place : str
        Page or part, for the log.
    """
    try:
        yield
    except StallScopeError as error:
        st.error(markdown.sentence(error.sentence), icon=":material/error:")
    except Exception:
        log_id = uuid.uuid4().hex[:8]
        _log.exception("page failed", place=place, log_id=log_id)
        st.error(
            f"This part could not be shown, through no fault of yours. The log says more under {log_id}.",
            icon=":material/error:",
        )


def guarded(function: Callable[P, None]) -> Callable[P, None]:
    """Put the boundary around a fragment, which reruns without app.py and so without app.py's boundary."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with boundary(function.__name__):
            function(*args, **kwargs)

    return run
