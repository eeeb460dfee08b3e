"""Commands about who may share: partners of a job at a limit, and whether a slowdown carries over to another GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import DatasetOption, DbOption, GpuOption, JsonOption, LimitOption, MaybeMechanismOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen


#: Rows that a terminal shows of those beyond the limit.
_MOST = 20


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("partners")(answers(partners))
    app.command("architectures")(answers(architectures))


def partners(
    *,
    dataset: DatasetOption,
    gpu: GpuOption,
    mechanism: MaybeMechanismOption = None,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="W", help="The job; repeated, the jobs that share the GPU already."),
    ] = None,
    limit: LimitOption,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="ID",
            help="Ask this model about sets that were not measured; by default the one that answers for the data set.",
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show who may sit beside a job: every member within the limit, and the memory fits."""
    from analysis.interference.joining import joining
    from analysis.interference.matrix import slowdown_matrix
    from analysis.predict.models.activemodel import answering
    from analysis.predict.models.judged import judged_pairs
    from analysis.predict.models.many import guess_of

    jobs = tuple(workload or ())
    with opened(db) as database:
        found = slowdown_matrix(database, dataset, gpu, mechanism)
        asked = model or answering(database, dataset)
        if not jobs or (len(jobs) == 1 and model is None):
            table = judged_pairs(database, dataset, found.gpu, found.mechanism, limit, jobs[0] if jobs else None, asked)
        else:
            guess = guess_of(database, asked, found.gpu, found.mechanism, limit)
            table = joining(database, dataset, gpu, mechanism, jobs, limit=limit, guess=guess)
            table["slowdowns"] = table["slowdowns"].map(list)
    table["simulated"] = found.simulated

    def show(screen: Screen) -> None:
        beside = f" of {' and '.join(jobs)}" if jobs else ""
        within, safe = table[table["within"]], table[table["safe"]]
        screen.line(
            f"Partners{beside} on {found.gpu} under {found.mechanism} at {limit:g} x: {len(within)} within the limit, "
            f"{len(safe)} may share.",
            style="bold",
        )
        if len(within) and not len(safe):
            screen.line("None may share yet: the reason stands with each, such as a memory that nobody knows.")
        for note in found.notes:
            screen.line(note)
        _list(screen, within, "Within the limit")
        _list(
            screen, table[~table["within"]].head(_MOST), "Others, the nearest first" if len(within) else "The nearest"
        )

    return Answer(table, show)


def _list(screen: Screen, table: pd.DataFrame, title: str) -> None:
    from analysis.reference import origin
    from analysis.report.table import columns_of

    if table.empty:
        return
    columns = columns_of(
        "workload/job",
        "partner",
        "verdict",
        "slowdown/job",
        "partner_slowdown",
        "worst",
        "stp",
        "within_limit",
        "basis",
        "memory",
    )
    if "basis" in table:
        simulated = bool(table["simulated"].any())
        table = table.assign(basis=[origin.evidence(str(one), simulated=simulated) for one in table["basis"]])
    screen.table(table, columns, title=title)


def architectures(
    *,
    dataset: DatasetOption,
    mechanism: MaybeMechanismOption = None,
    limit: LimitOption,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Show whether the slowdowns of a data set carry over from each of its GPUs to each other."""
    from analysis.errors import UsageError
    from analysis.interference.architectures import matrices, same_pairs, transfers
    from analysis.store.queries.sources import require_dataset

    if not limit >= 1:
        raise UsageError(f"a limit of {limit:g} x can't be met", "Give a slowdown of at least 1.")
    with opened(db) as database:
        require_dataset(database, dataset)
        found = matrices(database, dataset, mechanism)
    table = transfers(same_pairs(found), limit).assign(simulated=any(one.simulated for one in found.values()))

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if table.empty:
            screen.line(f"Data set {dataset} has no pair on two GPUs under one mechanism, so nothing can be compared.")
            return
        screen.line("A slowdown does not travel by itself: this is how wrong it is to copy it.", style="bold")
        columns = columns_of(
            "source", "target", "cells", "spearman", "copy_error", "bias", "pairs", "changed",
            changed={"label": f"change sides of {limit:g} x"},
        )  # fmt: skip
        screen.table(table, columns)

    return Answer(table, show)
