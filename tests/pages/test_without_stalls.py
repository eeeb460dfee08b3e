"""With telemetry alone, or profiles without stall reasons, every page stands and says which file would fill it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.settings import get_settings
from analysis.store.database import Database
from analysis.ui.shell.navigation import PAGES
from tests.pages.conftest import Open

LOG = "timestamp, index, name, utilization.gpu [%], power.draw [W]\n" + "".join(
    f"2026/01/03 15:36:{second:02d}.507, 0, Tesla T4, {second} %, [N/A]\n" for second in range(20)
)
SUMMARY = "Time (%),Total Time (ns),Instances,Avg (ns),Name\n60.0,400,4,100.0,a\n40.0,200,2,100.0,b\n"
FILES = {"telemetry": ("log.csv", LOG), "nsys": ("resnet50_bs64_T4.csv", SUMMARY)}


@pytest.mark.parametrize("kind", list(FILES))
def test_every_page_stands(app: Open, tmp_path: Path, kind: str) -> None:
    name, text = FILES[kind]
    path = tmp_path / name
    path.write_text(text)
    with Database(Path(get_settings().db)) as database:
        assert [report.status for report in import_paths(database, [path])] == ["loaded"]
    for entry in PAGES:
        if entry.path.startswith(("pages/help", "pages/predict", "pages/data/catalogue")):
            continue
        page = app(entry.path)
        assert not page.error, (entry.name, [item.value for item in page.error])
        if entry.name == "stalls":
            assert any("ncu --csv" in item.value for item in page.markdown)
