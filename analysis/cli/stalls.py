"""The command that shows what warps wait for: stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import (
    By,
    DbOption,
    JsonOption,
    MaybeDatasetOption,
    MaybeGpuOption,
)
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen


#: The fields of one row, in the order of the documentation; the others follow.
STALL_FIELDS = ("workload", "gpu", "reason", "group", "share", "cycles", "accounted", "launches")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("stalls")(answers(stalls))


def stalls(
    *,
    by: Annotated[By, typer.Option("--by", help="What one row of the answer stands for.")] = By.workload,
    gpu: MaybeGpuOption = None,
    dataset: MaybeDatasetOption = None,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="W", help="Only this workload; may be repeated.")
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show what resident warps wait for, as shares of warp cycles.

    Where a profile holds no stall metrics, the largest reason that its rule texts name, marked so.
    """
    import pandas as pd

    from analysis.ingest.formats.ncu.advice import COMMAND
    from analysis.stalls.kernels import METRICS, parts_of_time, top_reasons
    from analysis.stalls.shares import stall_shares
    from analysis.store.queries.profiles import chosen_profiles

    with opened(db) as database:
        chosen = chosen_profiles(database, gpu, dataset, workload or ())
        shares = stall_shares(database, chosen, by=by.value)
        named = top_reasons(database, chosen, shares, by.value)
        parts = parts_of_time(database, chosen) if len(shares) else []
    ordered = [name for name in STALL_FIELDS if name in shares] + [name for name in shares if name not in STALL_FIELDS]
    shares = shares[ordered].assign(reason_from=METRICS)
    whole = shares
    if len(named):
        whole = pd.concat(
            [frame.astype(object) for frame in (shares, named.assign(command=COMMAND))], ignore_index=True
        )
        whole = whole.where(whole.notna(), None)

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if len(named):
            _by_rules(screen, named, COMMAND)
        if shares.empty and named.empty:
            screen.line(
                "No stall reasons are loaded for this choice. `stallscope import` a CSV of Nsight Compute with them."
            )
        if shares.empty:
            return
        columns = columns_of(
            "workload", "gpu", "short_name", "grid", "block", "reason", "group", "share", "cycles", "accounted",
            "launches", "simulated",
        )  # fmt: skip
        screen.table(shares, columns)
        for text in parts:
            screen.line(text, style="yellow")

    return Answer(whole, show)


def _by_rules(screen: Screen, named: pd.DataFrame, command: str) -> None:
    """Print what only rule texts name, and what gets the rest."""
    from analysis.report.table import columns_of

    screen.line(
        "By rule text only: these profiles hold no stall metrics, so their other reasons are unknown, not zero."
    )
    screen.table(named, columns_of("workload", "gpu", "short_name", "reason/largest", "group", "share", "reason_from"))
    screen.line("This command gets all reasons:")
    screen.line(command)
    screen.line()
