"""The model card: what a model is for, what it has seen, how far off it is, and where it must not be trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis.numbers import format_value, significant
from analysis.predict.models.manifest import Manifest
from analysis.report.markup import plain

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
