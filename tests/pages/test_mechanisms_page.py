"""The mechanisms page on measured and simulated sets, and the sample on every page."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.ingest.bundle import import_bundle
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.own.templates import CORUNS
from analysis.ingest.importer import import_paths
from analysis.settings import asset, get_settings
from analysis.sharing import sample
from analysis.store.database import Database
from analysis.ui.shell.navigation import PAGES
from tests.pages.conftest import Open

PAGE = "pages/explore/mechanisms.py"
TABLE = """run_id,gpu,mechanism,workload,slowdown,p99_solo_ms,p99_corun_ms
1,A100-80GB,CUDA MPS,serve,1.25,10,39
1,A100-80GB,CUDA MPS,train,1.6,,
2,A100-80GB,time-slicing,serve,1.9,10,24
2,A100-80GB,time-slicing,train,2.0,,
3,A100-80GB,CUDA MPS,serve,1.2,10,30
3,A100-80GB,CUDA MPS,other,1.2,,
4,A100-80GB,time-slicing,serve,1.6,10,20
4,A100-80GB,time-slicing,other,1.7,,
"""


@pytest.fixture
def measured(tmp_path: Path) -> Database:
    path = tmp_path / "mechanisms.csv"
    path.write_text(TABLE)
    with Database(get_settings().db) as database:
        assert import_paths(database, [path])[0].status == "loaded"
    return database


def texts(page: AppTest) -> str:
    return " ".join(element.value for element in page.markdown)


def badges(page: AppTest) -> bool:
    return "Simulated data" in texts(page)


@pytest.mark.usefixtures("measured")
def test_measured_sets_are_compared_without_a_badge(app: Open) -> None:
    page = app(PAGE)
    assert not badges(page)
    assert "CUDA MPS gets most done" in texts(page)
    assert "grows least under time" in texts(page)
    assert any("4 runs" in caption.value and "measured" in caption.value for caption in page.caption)


@pytest.mark.usefixtures("measured")
def test_one_set_can_be_chosen(app: Open) -> None:
    page = app(PAGE)
    page.selectbox(key="set").set_value("serve + train on A100-80GB").run()
    assert not page.exception
    assert any("2 runs" in caption.value for caption in page.caption)


def test_any_jobs_can_be_simulated_and_say_so(app: Open) -> None:
    page = app(PAGE)
    assert badges(page)
    assert "gets most done" in texts(page)
    page.selectbox(key="simulated-gpu").set_value("V100-32GB").run()
    names = ["resnet50_bs32_amp_train", "dlrm_bs2048_fp32_train"]
    page.multiselect(key="simulated-jobs").set_value(names).run()
    assert any("never ranked beside" in caption.value for caption in page.caption)
    online = next(table.value for table in page.dataframe if "online" in table.value.columns)
    assert list(online["workload"]) == names
    assert set(online["label"]) == {"online: reads co-run stalls"}
    page.multiselect(key="simulated-jobs").set_value(["ppo-atari_bs256_fp32_train"]).run()
    assert not page.exception
    assert any("at least two" in caption.value for caption in page.caption)


def small_sample(database: Database) -> None:
    """A piece of the sample: the co-runs are enough to be simulated data."""
    import_bundle(database, asset("data", "samples", "jobs.csv.gz"), lambda _: Hints(dataset="sample"))


def test_every_page_says_that_the_sample_is_simulated(app: Open) -> None:
    with Database(get_settings().db) as database:
        small_sample(database)
    page, unmarked = app(PAGES[0].path), []
    for spec in (spec for spec in PAGES if spec.section != "Live"):  # the machine's own state is no data of the sample
        page.switch_page(spec.path).run()
        if page.exception or not badges(page):
            unmarked.append(spec.name)
    assert unmarked == []


def test_measurements_hide_the_sample_and_one_click_shows_it(app: Open, measured: Database) -> None:
    with Database(get_settings().db) as database:
        small_sample(database)
    page = app(PAGE)
    assert page.sidebar.selectbox(key="dataset").options == ["own"]
    assert not badges(page)
    page.sidebar.button(key="sample-switch").click().run()
    assert not page.exception
    assert set(page.sidebar.selectbox(key="dataset").options) == {"own", "sample (simulated)"}
    page.sidebar.button(key="sample-switch").click().run()
    assert page.sidebar.selectbox(key="dataset").options == ["own"]


def test_first_start_loads_it_and_removed_stays_removed(
    app: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STALLSCOPE_SAMPLE", "on")
    get_settings.cache_clear()
    # A first start with one small file in the sample's place: the whole one has its own test.
    monkeypatch.setattr(sample, "files", lambda: [asset("data", "samples", "jobs.csv.gz")])
    page = app("pages/home/overview.py")
    for _ in range(100):
        if badges(page):
            break
        time.sleep(0.1)
        page.run()
    assert badges(page)
    page = app("pages/help/settings.py")
    page.button(key="sample-remove").click().run()
    assert not page.exception
    assert page.button(key="sample-load")
    assert not badges(app("pages/home/overview.py"))


def test_switched_off_starts_empty(app: Open) -> None:
    assert not badges(app("pages/home/overview.py"))
    with Database(Path(str(get_settings().db) + ".other")) as other:
        assert not sample.wanted(other)


def test_a_template_is_no_simulated_data(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(CORUNS.csv())
    import_paths(database, [path])
    assert sample.state(database) == "absent"


def test_an_empty_page_offers_the_sample(app: Open) -> None:
    for name, key in ((PAGE, "empty-sample"), ("pages/explore/stalls.py", "empty-sample")):
        assert key in [button.key for button in app(name).button], name


def test_while_the_sample_loads_no_page_says_that_nothing_is_there(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.ui.shell.sample.loading", lambda: True)
    page = app("pages/home/overview.py")
    assert "sample is loading" in texts(page)
    assert "Nothing is loaded yet" not in texts(page)
    assert "empty-upload" not in [button.key for button in page.button]
    assert any("sample is loading" in info.value for info in page.info)
