"""Commands that look closer at profiles: which kernels matter, and what jobs lean on together."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DbOption, JsonOption, MaybeDatasetOption, MaybeGpuOption
from analysis.cli.running import Answer, answers, opened

if TYPE_CHECKING:
    import pandas as pd

    from analysis.cli.screen import Screen
    from analysis.store.database import Database

#: Rows that a person sees; the JSON holds all.
_SHOWN = 30


class Level(StrEnum):
    """What a row of the kernels stands for."""

    kernel = "kernel"
    name = "name"


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("kernels")(answers(kernels))
    app.command("overlap")(answers(overlap))


def kernels(
    *,
    by: Annotated[Level, typer.Option("--by", help="What one row of the answer stands for.")] = Level.kernel,
    gpu: MaybeGpuOption = None,
    dataset: MaybeDatasetOption = None,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="W", help="Only this workload; may be repeated.")
    ] = None,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="Operations and DRAM bytes instead, where the counters state them.")
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """List kernels by their GPU time, with what each waits for."""
    from analysis.stalls.kernels import kernel_table, pooled
    from analysis.stalls.roofline import roofline as place
    from analysis.store.queries.profiles import chosen_profiles

    with opened(db) as database:
        chosen = chosen_profiles(database, gpu, dataset, workload or ())
        if roofline:
            found = place(database, chosen)
            document: dict[str, Any] = {
                "points": _plain(found.points),
                "missing": _plain(found.missing),
                "peaks": _plain(found.peaks.rename_axis("gpu").reset_index()),
                "kernels": found.kernels,
            }
            return Answer(document, lambda screen: screen.line(found.sentence()))
        table = kernel_table(database, chosen, by.value)

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if table.empty:
            screen.line("No kernel of this choice is loaded. `stallscope import` a profile.")
            return
        shown = table.head(_SHOWN).assign(ms=table["time_ns"] / 1e6, us=table["mean_ns"] / 1e3)
        # Two GPUs of one workload are two profiles, whose rows would look alike.
        place = ["gpu"] if table["gpu"].nunique() > 1 else []
        columns = columns_of(
            "workload", *place, "short_name", "grid", "launches", "ms", "us", "time_share", "reason/largest",
            "reason_share", "reason_from",
        )  # fmt: skip
        screen.table(shown, columns)
        if told := pooled(table):
            screen.line(told, style="yellow")
        if len(table) > _SHOWN:
            screen.line(f"{len(table) - _SHOWN:,} more kernels; --json holds all.")

    return Answer(table, show)


def overlap(
    jobs: Annotated[
        list[str], typer.Argument(metavar="JOB...", help="Workloads side by side, two or more.", show_default=False)
    ],
    *,
    gpu: MaybeGpuOption = None,
    dataset: MaybeDatasetOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Say which resources jobs lean on together, and what they cost each other."""
    from analysis.predict.advise import alongside
    from analysis.stalls import resources
    from analysis.stalls.kernels import parts_of_time
    from analysis.store.filters import Filter

    with opened(db) as database:
        lean = _one_place(database, jobs, gpu, dataset)
        place = {name: str(lean[name].iloc[0]) for name in ("dataset", "gpu")}
        pairs = alongside.pairwise(database, place["dataset"], place["gpu"], jobs)
        here = Filter(datasets=(place["dataset"],), gpus=(place["gpu"],), workloads=tuple(jobs))
        partly = " ".join(parts_of_time(database, here))
    together = resources.overlap(lean)
    parts = [resources.sentence(lean), alongside.sentence(pairs), resources.differently_counted(lean), partly]
    text = " ".join(part for part in parts if part)
    document = {
        **place, "sentence": text, "resources": _plain(together), "jobs": _plain(lean), "slowdowns": _plain(pairs),
    }  # fmt: skip

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        screen.line(text, style="bold")
        screen.table(together, columns_of("title/resource", "jobs/lean", "asked", "smallest_wait", "state"))

    return Answer(document, show)


def _one_place(database: Database, jobs: list[str], gpu: str | None, dataset: str | None) -> pd.DataFrame:
    """Return how the jobs lean, on the one GPU and in the one data set that all of them are profiled in."""
    from analysis.errors import NotFoundError, UsageError
    from analysis.stalls import resources
    from analysis.store.queries.profiles import chosen_profiles

    if len(set(jobs)) < 2:
        raise UsageError("one job leans on nothing together with another", "Name two or more.")
    lean = resources.leaning(database, chosen_profiles(database, gpu, dataset, jobs))
    places = lean.groupby(["dataset", "gpu"])["workload"].nunique().reset_index()
    whole = [
        (str(row["dataset"]), str(row["gpu"])) for row in places.to_dict("records") if row["workload"] == len(set(jobs))
    ]
    if not whole:
        raise NotFoundError(
            f"{', '.join(jobs)} are not profiled on one GPU in one data set",
            "Profile all of them on the GPU that they are to share.",
        )
    if len(whole) > 1:
        names = "; ".join(f"{place[1]} in {place[0]}" for place in whole)
        raise UsageError(f"they are profiled together in several places: {names}", "Choose with --gpu and --dataset.")
    chosen_dataset, chosen_gpu = whole[0]
    return lean[(lean["dataset"] == chosen_dataset) & (lean["gpu"] == chosen_gpu)]


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]
