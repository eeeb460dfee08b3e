"""Reports about predictors: the comparison under each protocol, and the card of one model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from analysis.errors import NotEnoughDataError, NotFoundError
from analysis.predict.explain.importance import global_importance
from analysis.predict.models import models
from analysis.report import card as cardparts
from analysis.report.basis import choice, command, loading, moment, provenance, software, source_entries, training
from analysis.report.build import chosen_contents, evaluations_of
from analysis.report.document import ReportDocument, Source
from analysis.report.sections import evaluation, model
from analysis.report.sections.model import ModelAnswer
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import models as predictions
from analysis.store.queries import sources

COMPARISON_CONTENTS = {"evaluation": "errors under each protocol"}
CARD_CONTENTS = {
    "use": "intended use and data",
    "model": "its errors, and what it looks at",
    "intervals": "where its intervals come from",
    "limits": "where it must not be trusted",
}


def comparison_report(
    database: Database,
    dataset: str,
    *,
    gpus: Sequence[str] = (),
    mechanisms: Sequence[str] = (),
    contents: Sequence[str] = (),
    now: datetime | None = None,
) -> ReportDocument:
    """Report on the newest stored comparison of predictors of each protocol, GPU and mechanism.

    Raises
    ------
    NotEnoughDataError
        If no predictor was compared on what was chosen.
    """
    chosen_contents(contents, COMPARISON_CONTENTS)
    chosen = choice(database, dataset, gpus, mechanisms)
    results = evaluations_of(database, dataset, chosen)
    if not results:
        raise NotEnoughDataError(
            f"no predictor was compared on {chosen.sentence()}",
            f"Run `stallscope evaluate --dataset {dataset} --protocol unseen-pair`, or the Train page.",
        )
    files = sources.sources(database, Filter(datasets=(dataset,)))
    said = [text for text in (evaluation.sentence_of(result) for result in results) if text]
    title = str(sources.datasets(database).set_index("name")["title"].get(dataset) or dataset)
    return ReportDocument(
        kind="comparison",
        title=f"Predictors compared on {title}",
        subtitle="Which predictor to believe, beside the median and no interference",
        created_at=moment(now),
        provenance=provenance(bool(result["simulated"]) for result in results),
        summary=tuple(said),
        filters=(chosen.sentence(),),
        sections=(evaluation.section(results, lambda made, name: predictions.predictions(database, made, name)),),
        sources=source_entries(files),
        software=software(),
        reproduce=(
            loading(dataset, files),
            *dict.fromkeys(
                f"stallscope evaluate --dataset {dataset} --protocol {result['protocol']}" for result in results
            ),
            command("comparison", dataset, gpu=gpus, mechanism=mechanisms, contents=contents),
        ),
    )


def card_report(
    database: Database, model_id: str, *, contents: Sequence[str] = (), now: datetime | None = None
) -> ReportDocument:
    """Report on one model: the card, with what it looks at where its data are still loaded."""
    kept = chosen_contents(contents, CARD_CONTENTS)
    card = models.card(database, model_id)
    importance = None
    if card.runs and "model" in kept:
        try:
            importance = global_importance(database, model_id)
        except (NotEnoughDataError, NotFoundError):  # the data it learned from was removed
            importance = None
    answer = ModelAnswer(card, card.gpus[0], importance=importance)
    parts = [
        cardparts.use(card) if "use" in kept else None,
        model.about_section(answer, whole=True) if "model" in kept else None,
        cardparts.intervals(card) if "intervals" in kept else None,
        cardparts.limits_of(card) if "limits" in kept else None,
    ]
    said = Filter(datasets=(card.dataset,), gpus=tuple(card.gpus), mechanisms=tuple(card.mechanisms)).sentence()
    loaded = sources.sources(database, Filter(datasets=(card.dataset,)))
    known = {str(one["sha256"]) for one in card.sources}
    files: tuple[Source, ...] = source_entries(loaded[loaded["sha256"].isin(known)] if known else loaded)
    return ReportDocument(
        kind="model",
        title=f"{card.title}: {card.model_id}",
        subtitle="Model card: what it is for, what it has seen, how far off it is, and where it must not be trusted",
        created_at=moment(now),
        provenance="simulated" if card.simulated else "measured",
        summary=(model.about(card), *cardparts.scored(card)),
        filters=(said,),
        sections=tuple(part for part in parts if part is not None),
        sources=files,
        software=software(),
        reproduce=(
            loading(card.dataset, loaded),
            *([trained] if (trained := training(card)) else []),
            *([f"stallscope train --dataset {card.dataset} --predictor {card.predictor}"] if card.runs else []),
            command("model", card.dataset, model=[model_id], contents=contents),
        ),
    )
