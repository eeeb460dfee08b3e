"""The Live page: what it says of each GPU, of missing ones and of no driver, and recording with start and stop."""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.capture.fakenvml import FakeNvml, moving_machine
from analysis.capture.readings import Reader
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.parts import gpu
from tests.pages.conftest import Open

PAGE = "pages/live/gpu.py"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Put a made-up machine where the pages ask the driver, and let every look be a new one."""
    made = moving_machine()
    monkeypatch.setenv("STALLSCOPE_NVML", "fake")
    monkeypatch.setattr(gpu, "watcher", lambda kept=gpu.Watcher(Reader(lambda: made)): kept)  # noqa: B008
    monkeypatch.setattr(gpu, "_EVERY", 0.0)
    return made


def words(page: AppTest) -> str:
    kinds = ("markdown", "caption", "warning", "error")
    return " ".join(part.value for kind in kinds for part in page.get(kind)).replace("\\", "")


def test_without_a_driver_the_page_says_so_in_a_sentence(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = FakeNvml([], faults={"nvmlInit": 9})
    monkeypatch.setattr(gpu, "watcher", lambda: gpu.Watcher(Reader(lambda: nothing)))
    said = words(app(PAGE))
    assert "The NVIDIA driver is not loaded" in said
    assert "made up" not in said


def test_every_gpu_with_what_it_tells_and_what_not(app: Open, machine: FakeNvml) -> None:
    page = app(PAGE)
    said = words(page)
    assert "This machine is made up" in said
    assert "2 GPUs: **NVIDIA H200" in said
    assert "Not told: time with any kernel (not supported on this GPU)" in said
    tiles = {(tile.label, tile.value) for tile in page.metric}
    assert len(page.metric) == 2 * len(gpu.TILES)
    assert {("Share of time with any kernel", "–"), ("Memory", "9.2 GiB of 40.0")} <= tiles
    tables = {tuple(table.value.columns): table.value for table in page.dataframe}
    assert tables["PID", "Program", "Uses it as", "Memory, MiB"]["Uses it as"].tolist()[-2:] == ["MPS client"] * 2
    assert "2 clients of MPS" in said
    pictures = [one.proto.body for one in page.get("html") if 'alt="' in one.proto.body]
    assert any('alt="Power over the last ' in one for one in pictures)
    assert any('alt="Share of time with any kernel: not told"' in one for one in pictures)
    assert "2 MIG instances" in said
    machine.gpus[0].lost = True
    page.run()
    assert len(page.error) == 1
    assert "The GPU has fallen off the bus. Restart the machine" in words(page)
    assert "1 GPU: **NVIDIA A100" in words(page)


def test_a_recording_is_started_stopped_and_loaded(app: Open, machine: FakeNvml) -> None:
    page = app(PAGE)
    page.selectbox("record-interval").select("0.05 s")
    page.text_input("record-dataset").input("lab")
    page.button("record-start").click().run()
    assert not page.exception
    assert "Recording:" in words(page)
    app(PAGE)  # someone else, or the same reader later
    page.button("record-stop").click().run()
    page.run()
    assert "The last recording:" in words(page)
    st.cache_resource.clear()
    with Database(get_settings().db) as database:
        held = database.query("SELECT DISTINCT dataset, format, file_name, simulated FROM source")
        assert database.scalar("SELECT count(*) FROM telemetry WHERE name = 'power.draw'") > 0
        left = [path for path in Path(database.spool or "").rglob("*") if path.is_file()]
    assert set(held["dataset"]) == {"lab"}
    assert set(held["format"]) == {"nvidia-smi-log"}
    assert held["simulated"].all()  # no driver was asked
    assert left == []


def test_a_reader_who_may_only_look_records_nothing(
    app: Open, machine: FakeNvml, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLSCOPE_READ_ONLY", "true")
    get_settings.cache_clear()
    page = app(PAGE)
    assert page.button("record-start").disabled
    assert "2 GPUs" in words(page)
