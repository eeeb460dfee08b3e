"""The stand-ins on the PATH, in folders of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture import stand_ins


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the stand-ins; returns the script of a job."""
    tools, room, temp = tmp_path / "tools", tmp_path / "room", tmp_path / "temp"
    for folder in (tools, room, temp):
        folder.mkdir()
    script = stand_ins.install(tools)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ROOM", str(room))
    monkeypatch.setenv("FAKE_MPS_LOG", str(tmp_path / "mps.log"))
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    return script
