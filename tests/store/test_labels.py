"""What values are of is numbered, and a database of before keeps every row when it is brought forward."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from analysis.store import loader, migrate
from analysis.store.database import Database
from analysis.store.loader import SourceInfo, load, remove_source
from analysis.store.parsed import Frame, Parsed

ROWS = [
    (1, 1, 2, None, "m", "ns", 1.5, None, None, None),
    (1, 1, 3, "A", "m", "ns", 2.5, None, None, None),
    (2, 1, 4, "A", "m", None, None, "n/a", "f", "wait"),
    (2, 1, 4, "A", "m", None, None, "n/a", "f", "wait"),
    (3, 2, None, "", "m", "", 4.5, None, None, "wait"),
]
COLUMNS = ("kernel_id", "source_id", "line", "section", "metric", "unit", "value", "text", "family", "reason")


def test_a_database_of_before_keeps_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, all_steps = tmp_path / "old.duckdb", migrate.steps()
    with duckdb.connect(str(path)) as old, monkeypatch.context() as patch:
        patch.setattr(migrate, "steps", lambda: [step for step in all_steps if step[0] < 10])
        assert migrate.migrate(old, path) < 10
        old.executemany(f"INSERT INTO kernel_metric VALUES ({', '.join('?' * len(COLUMNS))})", ROWS)
    with Database(path) as database:
        found = database.query("SELECT * FROM kernel_metric ORDER BY kernel_id, line")
        assert tuple(found.columns) == COLUMNS
        rows = found.astype(object).where(found.notna(), None).itertuples(index=False)
        assert [tuple(row) for row in rows] == ROWS
        assert database.query("SELECT kernel_id FROM kernel_value")["kernel_id"].tolist() == [row[0] for row in ROWS]
        assert database.scalar("SELECT count(*) FROM kernel_label") == 4


@pytest.mark.parametrize("few", [1 << 22, 0], ids=["looked up", "sorted"])
@pytest.mark.parametrize("plain", [True, False], ids=["pandas", "dictionaries"])
def test_labels_are_shared_between_files_and_go_with_the_last(
    database: Database, monkeypatch: pytest.MonkeyPatch, few: int, plain: bool
) -> None:
    monkeypatch.setattr(loader, "_FEW", few)
    first = _load(database, "a", plain, [("A", "x", "ns"), (None, "x", "ns"), ("A", "y", None), ("A", "x", "ns")])
    second = _load(database, "b", plain, [("A", "y", None), ("B", "y", "%")])
    told = "SELECT section, metric, unit, value FROM kernel_metric ORDER BY kernel_id, value"
    assert database.query(told).fillna("-").values.tolist() == [
        ["A", "x", "ns", 0.0], ["-", "x", "ns", 1.0], ["A", "y", "-", 2.0], ["A", "x", "ns", 3.0],
        ["A", "y", "-", 0.0], ["B", "y", "%", 1.0],
    ]  # fmt: skip
    assert database.scalar("SELECT count(*) FROM kernel_label") == 4
    remove_source(database, first)
    assert database.query("SELECT section, metric FROM kernel_label ORDER BY label_id").values.tolist() == [
        ["A", "y"], ["B", "y"],
    ]  # fmt: skip
    remove_source(database, second)
    assert database.scalar("SELECT count(*) FROM kernel_label") == 0


def _load(database: Database, name: str, plain: bool, rows: list[tuple[str | None, str, str | None]]) -> int:
    frame: Frame = pd.DataFrame(rows, columns=["section", "metric", "unit"]).assign(launch=0, value=range(len(rows)))
    if not plain:
        table = pa.Table.from_pandas(frame.astype({"value": float}), preserve_index=False)
        for place, column in enumerate(("section", "metric", "unit")):
            table = table.set_column(place, column, table.column(column).cast(pa.string()).dictionary_encode())
        # Two pieces, whose dictionaries differ.
        frame = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    kernel = pd.DataFrame({"launch": [0], "workload": "w", "gpu": "V100", "name": "k", "short_name": "k"})
    parsed = Parsed(format="x", rows_read=len(rows), frames={"kernel": kernel, "kernel_metric": frame})
    return load(database, parsed, SourceInfo("own", name, name, 1))
