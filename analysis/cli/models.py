"""Commands on trained models: train, models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from analysis.cli.options import (
    DatasetOption,
    DbOption,
    FlaggedOption,
    JsonOption,
    MaybeGpuOption,
    MaybeMechanismOption,
)
from analysis.cli.running import Answer, answers, opened, progress_line
from analysis.errors import UsageError

if TYPE_CHECKING:
    from analysis.cli.screen import Screen
    from analysis.predict.models.models import ModelCard


#: Fields of a manifest that only a program needs, left out of the list of models.
_INTERNAL = {"ranges", "columns", "calibration"}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("train")(answers(train))
    app.command("models")(answers(models))


def train(
    *,
    dataset: DatasetOption,
    predictor: Annotated[
        str, typer.Option("--predictor", metavar="N", help="A predictor's name; `evaluate` compares them.")
    ] = "stallscope",
    gpu: MaybeGpuOption = None,
    mechanism: MaybeMechanismOption = None,
    include_flagged: FlaggedOption = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Train a predictor on a data set's measured co-runs and keep it; prints the id to predict with."""
    from analysis.predict.models.models import train as run

    with opened(db) as database:
        card = run(
            database, dataset, predictor, gpu, mechanism, progress_line(), include_flagged=include_flagged
        )  # fmt: skip

    def show(screen: Screen) -> None:
        screen.line(f"Model {card.model_id}", style="bold")
        screen.line(
            f"{card.title}, learned from {card.rows:,} members of {card.runs:,} "
            f"{'simulated ' if card.simulated else ''}runs of {card.dataset} on {', '.join(card.gpus)} under "
            f"{', '.join(card.mechanisms)}."
        )
        for note in card.notes:
            screen.line(note)
        for reason, number in card.left_out.items():
            screen.line(f"Left out: {number:,} {'member' if number == 1 else 'members'} ({reason}).")
        if card.flagged:
            screen.line(f"Left out, as the checks doubt their baselines: {', '.join(card.flagged)}.")
        screen.line(f"stallscope predict --model {card.model_id} --gpu {card.gpus[0]} --job A --job B")

    return Answer(card, show)


def models(
    *,
    card: Annotated[str | None, typer.Option("--card", metavar="ID", help="Print this model's card, Markdown.")] = None,
    activate: Annotated[
        str | None, typer.Option("--activate", metavar="ID", help="Let this model answer for its data set.")
    ] = None,
    delete: Annotated[str | None, typer.Option("--delete", metavar="ID", help="Take this model out.")] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """List the trained models, the newest first; or print, activate or delete one."""
    from analysis.predict.models import activemodel
    from analysis.predict.models.models import card as read
    from analysis.predict.models.models import delete as remove
    from analysis.predict.models.models import list_models

    if sum(value is not None for value in (card, activate, delete)) > 1:
        raise UsageError("more than one thing is asked for", "Give one of --card, --activate and --delete.")
    with opened(db) as database:
        if card is not None:
            return _card(read(database, card))
        if delete is not None:
            remove(database, delete)
        if activate is not None:
            activemodel.activate(database, activate)
        found = list_models(database)
        first = {activemodel.active(database, name) for name in {one.dataset for one in found}}
        cards = [
            {**one.model_dump(mode="json", exclude=_INTERNAL), "active": one.model_id in first} for one in found
        ]  # fmt: skip

    def show(screen: Screen) -> None:
        from analysis.report.table import columns_of

        if not cards:
            screen.line("No model is trained yet; `stallscope train --dataset D` makes one.")
            return
        columns = columns_of(
            "model_id",
            "title/predictor",
            "dataset",
            "active",
            "simulated",
            "gpus",
            "mechanisms",
            "runs/coruns",
            "created_at",
        )
        screen.table(cards, columns)

    return Answer(cards, show)


def _card(found: ModelCard) -> Answer:
    from analysis.report.card import model_card

    return Answer(found.model_dump(mode="json"), lambda screen: screen.line(model_card(found)))
