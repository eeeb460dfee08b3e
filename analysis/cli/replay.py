"""The command that replays a cluster under scheduling policies."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.cli.options import DatasetOption, DbOption, JsonOption, LimitOption, MaybeMechanismOption
from analysis.cli.running import DONE, REFUSED, Answer, answers, opened, progress_line
from analysis.errors import UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.plan.replay.study import Study


class Arrivals(StrEnum):
    """How jobs come."""

    poisson = "poisson"
    at_once = "at-once"
    bursts = "bursts"


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("replay")(answers(replay))


def replay(
    *,
    dataset: DatasetOption,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            dir_okay=False,
            exists=True,
            help="A trace: Gavel's tab-separated form, openb, or CSV with workload, arrival_s or gap_s, length_s.",
        ),
    ] = None,
    arrivals: Annotated[
        Arrivals | None, typer.Option("--arrivals", metavar="A", help="Drawn jobs: poisson, at-once or bursts.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="P",
            help="fifo, fifo-best, sjf, random, utilisation, prediction, prediction-risk or oracle; once for each, all "
            "that the data allow when left out.",
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", metavar="G=N", help="GPUs of a kind, such as V100=4; once for each.")
    ] = None,
    load: Annotated[
        list[float] | None,
        typer.Option("--load", metavar="X", help="Arrivals relative to what exclusive use can carry; 1.25 by default."),
    ] = None,
    per_hour: Annotated[
        list[float] | None, typer.Option("--per-hour", metavar="R", help="Jobs an hour, instead of --load.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, help="Jobs to draw.")] = 200,
    mean_length: Annotated[
        float, typer.Option("--mean-length", metavar="H", help="Mean length alone on the reference GPU, hours.")
    ] = 1.0,
    reference: Annotated[
        str | None, typer.Option("--reference", metavar="G", help="GPU that lengths are meant for; the fastest if not.")
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Replays of each policy and load.")] = 3,
    k: Annotated[int, typer.Option("--k", metavar="K", min=1, help="Jobs at once on a GPU.")] = 2,
    limit: LimitOption,
    least_stp: Annotated[
        float, typer.Option("--least-stp", metavar="X", help="STP above which sharing is worth it.")
    ] = 1.1,
    round_s: Annotated[
        float | None, typer.Option("--round", metavar="S", help="Place all jobs anew every S seconds, as Gavel does.")
    ] = None,
    predictor: Annotated[
        str, typer.Option("--predictor", metavar="N", help="Whose out-of-fold predictions decide.")
    ] = "stallscope",
    mechanism: MaybeMechanismOption = None,
    threads: Annotated[int, typer.Option("--n-jobs", metavar="N", min=1, help="Replays at a time.")] = 1,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Compute on a Dask cluster that runs, tcp://host:port."),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Replay a cluster under scheduling policies on measured slowdowns; Ctrl-C keeps the replays that are done."""
    from analysis.plan.replay.study import Request, run
    from analysis.predict.evaluate import execution as dask

    if trace is not None and (arrivals or load or per_hour):
        raise UsageError("a trace says itself when jobs come", "Give --trace, or --arrivals with --load or --per-hour.")
    if trace is None and arrivals is None:
        raise UsageError("nothing says when jobs come", "Give --trace FILE or --arrivals poisson.")
    if load and per_hour:
        raise UsageError("--load and --per-hour say the same thing", "Give one of them.")
    if not limit >= 1 or not mean_length > 0 or any(not value > 0 for value in (*(load or ()), *(per_hour or ()))):
        raise UsageError("a limit below 1, or a load or length of 0 or less, makes no sense", "Give larger numbers.")
    request = Request(
        dataset=dataset, counts=_counts(gpu or []), policies=tuple(policy or ()), trace=trace,
        arrivals=(arrivals or Arrivals.poisson).value, loads=tuple(load or (1.25,)), per_hour=tuple(per_hour or ()),
        jobs=jobs, mean_length_s=3600.0 * mean_length, seeds=seeds, slots=k, limit=limit, least_stp=least_stp,
        round_s=round_s, predictor=predictor, mechanism=mechanism, reference=reference,
    )  # fmt: skip
    with opened(db) as database, dask.connected(cluster) as backend:
        found = run(database, request, progress_line(), n_jobs=threads, backend=backend, stop=(KeyboardInterrupt,))
    return Answer(
        found.to_json(), lambda screen: _show(screen, found), REFUSED if found.cancelled else DONE
    )  # fmt: skip


def _counts(words: list[str]) -> dict[str, int]:
    """Read ``G=N``; a kind that stands twice counts once for each."""
    counts: dict[str, int] = {}
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals or not name.strip() or not number.strip().isdigit() or not int(number):
            raise UsageError(f"--gpu {word} names no kind and number", "Write it like --gpu V100=4.")
        counts[name.strip()] = counts.get(name.strip(), 0) + int(number)
    return counts


def _show(screen: Screen, found: Study) -> None:
    from analysis.plan.replay.study import sentence
    from analysis.report.table import columns_of

    screen.line(sentence(found), style="bold")
    there = ", ".join(f"{count} {name}" for name, count in found.counts.items())
    screen.line(
        f"{there} under {found.truth.mechanism}; exclusive use carries {found.capacity_per_hour:.3g} jobs an hour; "
        f"lengths are alone on the {found.truth.reference}; limit {found.limit:g}."
    )
    rows: list[dict[str, Any]] = found.to_json()["policies"]
    columns = columns_of(
        "title/policy", "load", "seeds/replays", "mean_jct_h", "median_jct_h", "p95_jct_h", "makespan_h",
        "mean_waiting_h", "mean_slowdown", "violations", "gpu_hours",
        mean_jct_h={"low": "mean_jct_h_low", "high": "mean_jct_h_high"},
    )  # fmt: skip
    screen.table(rows, columns)
    if found.cancelled:
        screen.line(f"Stopped: {len(found.runs):,} of {found.planned:,} replays are done and counted.")
    for note in found.notes:
        screen.line(note)
