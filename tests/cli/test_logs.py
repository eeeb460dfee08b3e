"""Log records go to the standard error of the moment, not to one that was closed meanwhile."""

from __future__ import annotations

import io
import sys

import pytest
import structlog

from analysis.cli.running import configure_logs


def test_records_follow_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    configure_logs(verbose=False)
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    try:
        structlog.get_logger("later").warning("still said")
    finally:
        structlog.reset_defaults()
    assert "still said" in second.getvalue()
