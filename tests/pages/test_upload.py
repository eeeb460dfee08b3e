"""Uploading: each file says what it is before anything is loaded, bad ones cost nothing, an upload can be undone."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from streamlit.testing.v1 import AppTest

from analysis.store.queries import sources
from analysis.ui.parts.upload import KIND
from analysis.ui.shell import resources
from tests.conftest import ROOT
from tests.pages.files import coruns, profile

SCRIPT = "pages/data/upload.py"


@pytest.fixture
def upload_page() -> AppTest:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    page.run()
    page.switch_page(SCRIPT)
    return page.run()


def drop(page: AppTest, *files: tuple[str, bytes]) -> AppTest:
    """Drop files on the page."""
    page.file_uploader[0].set_value([(name, content, "text/csv") for name, content in files])
    page.run()
    assert not page.exception
    return page


def load(page: AppTest) -> AppTest:
    """Load what waits, and wait until it is done."""
    page.button(key="load").click().run()
    job = resources.jobs().latest(KIND)
    assert job is not None
    assert resources.jobs().wait(job.job_id, 60).state == "done"
    page.run()
    assert not page.exception
    return page


def words(page: AppTest) -> str:
    """Everything the page says."""
    labels = [expander.label for expander in page.expander]
    return "\n".join([*(text.value for text in page.markdown), *(text.value for text in page.error), *labels]).replace(
        "\\", ""
    )


def loaded() -> int:
    return len(sources.sources(resources.database()))


def test_files_are_seen_loaded_and_taken_back(upload_page: AppTest, tmp_path: Path) -> None:
    path = profile(tmp_path / "bert_bs8_amp_A100-40GB.csv", "bert_bs8_amp")
    table = coruns(tmp_path / "coruns.csv")
    page = drop(upload_page, (path.name, path.read_bytes()), (table.name, table.read_bytes()))
    assert loaded() == 0, "nothing is loaded before the user says so"
    assert [box.value for box in page.text_input if box.label == "Workload"] == ["bert_bs8_amp"]
    assert [box.value for box in page.selectbox if box.label == "GPU"] == ["A100-40GB"]

    page = load(page)
    assert "2 of 2 files loaded" in words(page)
    assert loaded() == 2

    page.button(key="undo").click().run()
    assert loaded() == 0
    assert "Undone" in words(page)


def test_every_file_of_an_archive_is_seen_and_named_on_its_own(upload_page: AppTest, tmp_path: Path) -> None:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name in ("bert_bs8_amp", "vit_bs32_amp"):
            archive.write(profile(tmp_path / f"{name}.csv", name), f"{name}.csv")
        archive.writestr("notes.txt", "nothing to load\n")
    page = drop(upload_page, ("campaign.zip", packed.getvalue()))
    assert [box.value for box in page.text_input if box.label == "Workload"] == ["bert_bs8_amp", "vit_bs32_amp"]
    assert "campaign.zip/notes.txt" in words(page)
    assert [item.seen.error is None for item in page.session_state["upload"].pending] == [True, True, False]
    for box in page.selectbox:
        if box.label == "GPU":
            box.select("H100")
    page = load(page.run())
    assert "2 of 3 files loaded" in words(page)
    assert set(sources.workloads(resources.database())["workload"]) == {"bert_bs8_amp", "vit_bs32_amp"}
    assert [path.name for path in resources.uploads(resources.database()).iterdir()] == []


def test_workload_and_gpu_can_be_corrected(upload_page: AppTest, tmp_path: Path) -> None:
    path = profile(tmp_path / "run-17.csv", "bert_bs8_amp")
    page = drop(upload_page, (path.name, path.read_bytes()))
    next(box for box in page.text_input if box.label == "Workload").set_value("my job")
    next(box for box in page.selectbox if box.label == "GPU").select("H100")
    load(page.run())
    table = sources.workloads(resources.database())
    assert list(table["workload"]) == ["my job"]
    assert list(table["gpus"].iloc[0]) == ["H100"]


def test_the_same_bytes_load_once(upload_page: AppTest, tmp_path: Path) -> None:
    content = coruns(tmp_path / "coruns.csv").read_bytes()
    page = load(drop(upload_page, ("coruns.csv", content)))
    page = drop(page, ("copy.csv", content))
    assert "The same bytes are loaded already, as source 1" in words(page)
    assert page.button(key="load").disabled
    assert loaded() == 1


def test_the_same_bytes_twice_in_one_drop_are_named(upload_page: AppTest, tmp_path: Path) -> None:
    content = coruns(tmp_path / "coruns.csv").read_bytes()
    page = drop(upload_page, ("coruns.csv", content), ("copy.csv", content))
    (note,) = page.info
    assert note.value.replace("\\", "") == "copy.csv holds the same bytes as coruns.csv; it is loaded once."
    load(page)
    assert loaded() == 1


def test_rejected_rows_are_shown_with_line_and_reason(upload_page: AppTest, tmp_path: Path) -> None:
    lines = coruns(tmp_path / "coruns.csv").read_text().splitlines()
    lines[5] = lines[5].replace("samples/s", "samples/s").replace(lines[5].split(",")[6], "fast")
    page = load(drop(upload_page, ("coruns.csv", "\n".join(lines).encode())))
    table = next(frame.value for frame in page.dataframe if "reason" in frame.value.columns)
    assert 6 in list(table["line"])
    assert table["reason"].str.contains("number").any()


BAD = {
    "empty.csv": (b"", "empty"),
    "notes.csv": (b"\x1b[32mBenchmark report\x1b[0m\nAll 12 kernels passed.\nTotal 3.2 s\n", "ncu --csv"),
    "failed.csv": (
        b"==PROF== Connected to process 12\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
        b"NVIDIA GPU Performance Counters on the target device 0.\n==PROF== Disconnected\n",
        "permission",
    ),
    "profile.ncu-rep": (b"NVR\x00\x01\x02\x03\x04\x00\x00\x00\x00" + bytes(range(256)) * 4, "ncu --import"),
    "norows.csv": (
        b'"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        b'"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n',
        "row",
    ),
    "cut.csv.gz": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd", "cut off"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_one_sentence_and_cost_nothing(upload_page: AppTest, name: str) -> None:
    content, expected = BAD[name]
    page = drop(upload_page, (name, content))
    text = words(page)
    assert name in text
    assert expected in text, text
    assert "Traceback" not in text
    assert page.button(key="load").disabled
    assert loaded() == 0


def test_a_hostile_name_stays_a_name(upload_page: AppTest) -> None:
    page = drop(upload_page, ("<script>alert(1)</script> **bold** :red[x].csv", b"nothing\n"))
    raw = "\n".join(text.value for text in page.markdown)
    assert "**bold**" not in raw
    assert ":red[x]" not in raw
    assert "<script>" not in raw


def test_a_cancelled_upload_says_what_is_left(upload_page: AppTest, tmp_path: Path) -> None:
    from analysis.errors import CancelledError
    from analysis.ingest.contract.format import Hints
    from analysis.ui.parts.upload import load_all
    from analysis.ui.shell.spool import Spooled

    work = []
    for number, job in enumerate(("bert_bs8_amp", "resnet50_bs64_amp")):
        path = profile(tmp_path / f"{job}.csv", job)
        work.append((Spooled(path.name, path, str(number), 1), Hints(workload=job, gpu="A100-40GB")))

    def progress(fraction: float, _: str) -> None:
        if fraction > 0:
            raise CancelledError("stopped", "again")

    result = load_all(resources.database(), work, progress)
    assert result["cancelled"]
    assert result["left"] == ["resnet50_bs64_amp.csv"]
    assert [report["status"] for report in result["reports"]] == ["loaded"]
