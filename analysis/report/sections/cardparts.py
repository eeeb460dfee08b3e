"""The parts of a model card: use and data, intervals, limits; the same facts as its Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.numbers import significant
from analysis.predict.models.manifest import Manifest
from analysis.report import card as cards
from analysis.report.document import Block, Section, Table, Text
from analysis.report.table import column, table


def use(card: Manifest) -> Section:
    """Make the section of what a model is for and what it learned from."""
    facts = [
        ("id", card.model_id), ("predictor", card.predictor), ("made", card.created_at or "needs no training"),
        ("data set", f"{card.dataset}, {'simulated' if card.simulated else 'measured'}"),
        ("GPUs", ", ".join(card.gpus)), ("mechanisms", ", ".join(card.mechanisms)),
        ("jobs at once", ", ".join(map(str, card.k))), ("runs, members", f"{card.runs:,}, {card.rows:,}"),
        ("workloads, families", f"{len(card.workloads)}, {len(card.families)}"),
        ("left out", "; ".join(f"{count:,} members ({reason})" for reason, count in card.left_out.items() if count)),
        ("hash of features and targets", card.data_hash), ("hash of the model", card.payload_sha256),
        ("made with", ", ".join(f"{name} {number}" for name, number in card.versions.items())),
    ]  # fmt: skip
    blocks: list[Block] = [
        Text(sentences=(cards.use_of(card), card.source)),
        _pairs("The model and its data", [(name, value) for name, value in facts if value]),
    ]
    return Section(key="use", title="What it is for, and what it has seen", blocks=tuple(blocks))


def intervals(card: Manifest) -> Section:
    """Make the section of how its intervals were calibrated."""
    found = cards.calibrations(card)
    if not found:
        text = "There are no intervals: too few measured runs to calibrate on."
        return Section(key="intervals", title="Where its intervals come from", blocks=(Text(sentences=(text,)),))
    columns = (column("protocol", "calibrated by"), column("groups", "left-out groups", "count"),
               column("unit", "of"), column("note", "note", "prose"))  # fmt: skip
    made = table("Calibration of the intervals", found, columns)
    return Section(key="intervals", title="Where its intervals come from", blocks=(made,))


def limits_of(card: Manifest) -> Section:
    """Make the section of where the model must not be trusted."""
    return Section(
        key="limits", title="Where it must not be trusted", blocks=(Text(sentences=tuple(cards.limits(card))),)
    )


def scored(card: Manifest) -> list[str]:
    """Say how far off its predictor was, beside the median; nothing where it was not evaluated."""
    rows = [row for row in card.protocol_results if row["mape"] is not None]
    said = []
    for row in rows:
        if row["predictor"] != card.predictor:
            continue
        beside = [
            f"{label} by {significant(float(other['mape']))} %"
            for name, label in (("train-median", "the train median"), ("no-interference", "no interference"))
            for other in rows
            if (other["predictor"], other["protocol"]) == (name, row["protocol"]) and name != card.predictor
        ]
        head = f"Under protocol {row['protocol']} it is off by {significant(float(row['mape']))} % on average"
        said.append(f"{'; '.join([head, *beside])}.")
    return said


def _pairs(title: str, facts: Sequence[tuple[str, str]]) -> Table:
    columns = (column("name", "what"), column("value", "value", "prose"))
    return table(title, [{"name": name, "value": value} for name, value in facts], columns)
