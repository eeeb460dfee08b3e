"""The command that shows who slows whom: matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from analysis.cli.options import (
    DatasetOption,
    DbOption,
    GpuOption,
    JsonOption,
    MaybeMechanismOption,
)
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.interference.matrix import SlowdownMatrix


#: Characters that a matrix needs for the names and for each column; cells listed where they are not there.
_NAME, _CELL, _CELLS = 40, 7, 40


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("matrix")(answers(matrix))


def matrix(
    *,
    dataset: DatasetOption,
    gpu: GpuOption,
    mechanism: MaybeMechanismOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show who slows whom: rows the slowed, columns the aggressor, plain ratios."""
    from analysis.interference.matrix import slowdown_matrix

    with opened(db) as database:
        found = slowdown_matrix(database, dataset, gpu, mechanism=mechanism)
    document = found.document() if as_json else found.to_json()

    def show(screen: Screen) -> None:
        from analysis.report.table import column, columns_of

        screen.line(f"Slowdown of the row's workload beside the column's, {document['n']} runs.", style="bold")
        for note in document["notes"]:
            screen.line(note)
        if _NAME + _CELL * len(document["workloads"]) > screen.width:
            _list_cells(screen, found)
            return
        workloads = document["workloads"]
        records = [
            {"victim": name, **{str(column): value for column, value in enumerate(row)}}
            for name, row in zip(workloads, document["slowdown"], strict=True)
        ]
        columns = [column(str(index), str(index + 1), "number") for index in range(len(workloads))]
        for index, record in enumerate(records):
            record["number"] = index + 1
        screen.table(records, [column("number", "", "count"), *columns_of("victim"), *columns])

    return Answer(document, show)


def _list_cells(screen: Screen, found: SlowdownMatrix) -> None:
    """Print a matrix that is wider than the screen as a list, the harshest cells first."""
    from analysis.report.table import columns_of

    cells = found.table().sort_values("slowdown", ascending=False, kind="stable", na_position="last")
    cells = cells[cells["state"] != "not_measured"]
    screen.table(cells.head(_CELLS), columns_of("workload/slowed", "beside", "slowdown", "state", "runs"))
    if len(cells) > _CELLS:
        screen.line(f"{len(cells) - _CELLS:,} more cells; --json holds all, and a wider terminal shows the matrix.")
