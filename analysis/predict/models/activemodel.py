"""Which of a data set's models answers when nobody names one."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.predict.models import models, unanswered, untrained
from analysis.predict.models.manifest import Manifest
from analysis.store.database import Database
from analysis.store.queries import settings


def activate(database: Database, model_id: str) -> Manifest:
    """Make a model the one that answers for its data set.

    Raises
    ------
    NotFoundError
        If there is no such model.
    ModelRefusedError
        If its manifest doesn't fit.
    """
    card = models.card(database, model_id)
    settings.put(database, _key(card.dataset), model_id)
    return card


def active(database: Database, dataset: str) -> str | None:
    """Return the id of the model that answers for a data set: the active one, else the newest; None without any."""
    known = [card.model_id for card in models.list_models(database) if card.dataset == dataset]
    chosen = settings.get(database, _key(dataset))
    return chosen if chosen in known else known[0] if known else None


def answering(database: Database, dataset: str) -> str:
    """Return what answers about a data set when nobody names a model: a trained one, the white box, or no model."""
    trained = active(database, dataset)
    if trained is not None:
        return trained
    alone = untrained.available(database, dataset)
    return alone[0].model_id if alone else unanswered.model_id_of(dataset)


def active_first(database: Database, cards: Sequence[Manifest]) -> list[Manifest]:
    """Return cards with those of the active models before all others, else in the order given."""
    first = {active(database, dataset) for dataset in dict.fromkeys(card.dataset for card in cards)}
    return sorted(cards, key=lambda card: card.model_id not in first)


def _key(dataset: str) -> str:
    return f"active-model:{dataset}"
