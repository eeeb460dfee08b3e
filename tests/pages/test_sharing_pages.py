"""Partners, architectures and the matrix's layers: what they say, in words a reader can act on."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from analysis.ingest.importer import import_paths
from analysis.predict.models import models
from analysis.settings import get_settings
from analysis.store.database import Database
from tests.pages.conftest import Open
from tests.pages.files import coruns
from tests.pages.test_explore import words

TABLE = """run_id,gpu,mechanism,workload,slowdown,outcome
1,V100-16GB,CUDA MPS,a,1.1,ran
1,V100-16GB,CUDA MPS,b,1.15,ran
2,V100-16GB,CUDA MPS,a,1.3,ran
2,V100-16GB,CUDA MPS,c,1.6,ran
3,V100-16GB,CUDA MPS,b,,did_not_run
3,V100-16GB,CUDA MPS,c,,did_not_run
4,P100,CUDA MPS,a,1.32,ran
4,P100,CUDA MPS,b,1.1,ran
5,V100-16GB,CUDA MPS,a,,did_not_run
5,V100-16GB,CUDA MPS,b,,did_not_run
6,V100-16GB,CUDA MPS,a,1.4,ran
6,V100-16GB,CUDA MPS,b,1.5,ran
6,V100-16GB,CUDA MPS,c,1.9,ran
"""


@pytest.fixture
def shared(tmp_path: Path) -> None:
    """Fill the application's database with two GPUs, a pair that ran and failed, and a set of three."""
    path = tmp_path / "coruns.csv"
    path.write_text(TABLE)
    get_settings().db.parent.mkdir(parents=True, exist_ok=True)
    with Database(get_settings().db) as database:
        assert import_paths(database, [path])[0].status == "loaded"


def test_partners_within_the_limit_are_not_called_safe(app: Open, shared: None) -> None:
    page = app("pages/explore/partners.py", job="a", **{"on-gpu": "V100-16GB"})
    text = words(page)
    assert "**1** of 2 measured stay within 1.2 x" in text
    assert "None can be called safe" in text
    assert "Partners within the limit" in text
    assert "Safe partners" not in text
    table = next(frame.value for frame in page.dataframe if "verdict" in frame.value.columns)
    assert table["verdict"].tolist() == ["measure first"]
    assert "**none** stays within 1.05 x" in words(app("pages/explore/partners.py", job="a", limit="1.05"))


def test_who_should_never_meet_and_larger_sets(app: Open, shared: None) -> None:
    page = app("pages/explore/partners.py", there="a")
    text = words(page)
    assert "1 pair did not run together" in text
    assert "1 set of three or more ran, 0 did not" in text
    assert "Beside a, " in text
    page.button(key="add-0").click().run()
    assert not page.exception
    assert len(page.multiselect(key="there").value) == 2


def test_a_slowdown_does_not_travel(app: Open, shared: None, tmp_path: Path) -> None:
    page = app("pages/explore/architectures.py")
    assert "Copying a slowdown from **P100** to **V100-16GB**" in words(page)
    assert "does not travel by itself" in "".join(box.value for box in page.warning)
    assert "1 of 1" not in words(page)
    assert "**1** of 1 pairs that ran on both" in words(page)


def test_one_gpu_alone_cannot_tell(app: Open, filled: Path) -> None:
    assert "15 to 55 %" in words(app("pages/explore/architectures.py"))


def test_a_pair_that_ran_and_failed_says_so(app: Open, shared: None) -> None:
    page = app("pages/explore/interference.py", view="V100-16GB", slowed="a", beside="b")
    assert "It failed in 1 more run" in words(page)
    table = next(frame.value for frame in page.dataframe if frame.value.index.name == "slowed")
    assert table.loc["a", "b"] == "1.10, 1 failed"
    assert table.loc["b", "c"] == "did not run"


def test_predictions_stand_beside_measurements(app: Open, tmp_path: Path) -> None:
    path = coruns(tmp_path / "coruns.csv")
    rows = pd.read_csv(io.StringIO(path.read_text()))
    key = "run_id" if "run_id" in rows else rows.columns[0]
    path.write_text(rows[rows[key] != rows[key].iloc[0]].to_csv(index=False))
    get_settings().db.parent.mkdir(parents=True, exist_ok=True)
    with Database(get_settings().db) as database:
        import_paths(database, [path])
        models.train(database, "own", "effects")
    page = app("pages/explore/interference.py", layer="Predicted")
    assert "The model's predictions are off by" in words(page)
    table = next(frame.value for frame in page.dataframe if frame.value.index.name == "slowed")
    assert table.iloc[0, 1].endswith(" predicted")
    filled = app("pages/explore/interference.py", layer="Difference")
    assert not filled.error
