"""A table that no format claims is mapped in the upload form, saved, and then loads."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from analysis.ingest import mapping
from analysis.ui.shell import resources
from tests.conftest import ROOT

TABLE = b"exp;job;s;card\n1;a;1.5;T4\n1;b;1.2;T4\n"


def test_map_save_and_read_again() -> None:
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60).run()
    page.switch_page("pages/data/upload.py").run()
    page.file_uploader[0].set_value([("ours.csv", TABLE, "text/csv")])
    page.run()
    assert not page.exception
    assert any("Nothing fills" in item.value for item in page.info)
    for field, value in {"run_id": "exp", "workload": "job", "slowdown": "s", "gpu": "card"}.items():
        next(box for box in page.selectbox if box.label == f"`{field}`").set_value(value)
    page.run()
    assert not page.exception
    next(button for button in page.button if button.label == "Save the mapping").click().run()
    assert not page.exception
    assert [item.columns["slowdown"] for item in mapping.saved(resources.database())] == ["s"]
    assert not page.button(key="load").disabled
