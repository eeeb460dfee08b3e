"""Log records go to the standard error of the moment, not to one that was closed meanwhile."""

from __future__ import annotations

import io
import sys

import pytest
import structlog

from analysis.logs import configure_logs, get_logger


def test_records_follow_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logs(verbose=False)
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    try:
        get_logger("later").warning("still said")
    finally:
        structlog.reset_defaults()
    assert "still said" in second.getvalue()


def test_errors_are_told_without_the_values_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    configure_logs(verbose=False)

    def fails(token: str) -> None:
        raise ValueError("no such place")

    try:
        fails("a" + "-secret" * 3)
    except ValueError:
        get_logger("later").exception("failed")
    finally:
        structlog.reset_defaults()
    assert "no such place" in said.getvalue()
    assert "-secret-secret" not in said.getvalue()
