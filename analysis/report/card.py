"""The model card: what a model is for, what it has seen, how far off it is, and where it must not be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis.numbers import format_value, significant
from analysis.predict.models.manifest import Manifest
from analysis.report.document import Block, Section, Table, Text
from analysis.report.markup import plain
from analysis.report.table import columns_of, table

#: With fewer left-out groups than this the level of an interval can't be guaranteed.
ENOUGH_GROUPS = 10


def model_card(card: Manifest, *, level: int = 1) -> str:
    """Return a model's card as Markdown.

    Parameters
    ----------
    card : Manifest
        Everything stands in the model's own manifest; names from files are escaped.
    level : int
        Level of its heading: 1 for a file of its own, more inside a page.
    """
    environment = Environment(
        loader=PackageLoader("analysis.report"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - Markdown, not HTML; the filter below escapes it
        keep_trailing_newline=True,
    )
    environment.filters["md"] = plain
    environment.filters["number"] = lambda value: format_value(value, "number")
    text = environment.get_template("card.md.j2").render(
        card=card,
        mark="#" * level,
        use=use_of(card, lambda text: plain(text, 400)),
        left_out="; ".join(f"{count:,} members ({reason})" for reason, count in card.left_out.items() if count),
        results=[_result(row) for row in card.protocol_results if row["mape"] is not None],
        calibrations=calibrations(card),
        limits=limits(card),
    )
    return str(text)


def use_of(card: Manifest, escape: Callable[[str], str] = str) -> str:
    """Say what a model is for; `escape` makes names harmless for where they are shown."""
    made = "simulated" if card.simulated else "measured"
    where, how = escape(", ".join(card.gpus)), escape(", ".join(card.mechanisms))
    return (
        f"To predict how much each training job of a set slows down beside the others on {where} under {how}, from "
        f"profiles of the jobs alone. It learnt from {made} runs; decisions about sharing also need the memory check, "
        "which is not part of the model."
    )


def _result(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row.get("mape_ci") or (None, None)
    between = f"{significant(low)} to {significant(high)}" if low is not None and high is not None else "–"
    return {**row, "title": row.get("title") or row["predictor"], "interval": between}


def calibrations(card: Manifest) -> list[dict[str, Any]]:
    """Return by what, and by how many left-out groups, a model's intervals are calibrated."""
    found = []
    for protocol in card.calibration:
        calibration = card.calibrated(protocol)
        if calibration is not None:
            few = calibration.groups < ENOUGH_GROUPS
            note = f"fewer than ten: {100 * calibration.level:.0f} % can't be guaranteed" if few else ""
            found.append({"protocol": protocol, "groups": calibration.groups, "unit": calibration.unit, "note": note})
    return found


def limits(card: Manifest) -> list[str]:
    """Say where a model must not be trusted."""
    limits = [
        f"Another GPU than {', '.join(card.gpus)}, another mechanism than {', '.join(card.mechanisms)}, or clients "
        "with caps that were not measured: predictions are marked extrapolating, and have no interval.",
        "A slowdown does not travel: copying one from another GPU is 15 to 55 % wrong.",
    ]
    if max(card.k) == 2:
        limits.append("It has seen pairs only; larger sets are composed of pairs.")
    if card.simulated:
        limits.append("It learnt from simulated runs. What it says of real GPUs is untested.")
    if len(card.families) < ENOUGH_GROUPS:
        limits.append(
            f"It has seen {len(card.families)} model families: what it says of another one is not well tested."
        )
    return [*limits, *card.notes]


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
        Text(sentences=(use_of(card), card.source)),
        _pairs("The model and its data", [(name, value) for name, value in facts if value]),
    ]
    return Section(key="use", title="What it is for, and what it has seen", blocks=tuple(blocks))


def intervals(card: Manifest) -> Section:
    """Make the section of how its intervals were calibrated."""
    found = calibrations(card)
    if not found:
        text = "There are no intervals: too few measured runs to calibrate on."
        return Section(key="intervals", title="Where its intervals come from", blocks=(Text(sentences=(text,)),))
    columns = columns_of("protocol/calibration", "groups", "unit/calibration", "note")  # fmt: skip
    made = table("Calibration of the intervals", found, columns)
    return Section(key="intervals", title="Where its intervals come from", blocks=(made,))


def limits_of(card: Manifest) -> Section:
    """Make the section of where the model must not be trusted."""
    return Section(key="limits", title="Where it must not be trusted", blocks=(Text(sentences=tuple(limits(card))),))


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
    columns = columns_of("name/fact", "value/fact")
    return table(title, [{"name": name, "value": value} for name, value in facts], columns)
