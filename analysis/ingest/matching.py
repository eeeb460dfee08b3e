"""Proposes which profile belongs to which workload of the co-runs, and joins the two when the user confirms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.merge import aliases, merge_workloads
from analysis.store.queries import sources

COLUMNS = ("profile_workload", "corun_workload", "score", "reason")

#: Below this score nothing is proposed.
LEAST = 0.5

#: Attribute -> words, factor where it differs, factor where one side doesn't say.
_SETTINGS: Mapping[str, tuple[str, float, float]] = {
    "batch_size": ("batch size", 0.35, 0.85),
    "precision": ("precision", 0.6, 0.95),
    "phase": ("phase", 0.45, 0.95),
    "training_data": ("data", 0.8, 1.0),
}
_HALF = frozenset({"amp", "fp16", "bf16"})


def propose(db: Database, dataset: str) -> pd.DataFrame:
    """Propose a workload of the co-runs for every profile that has none.

    Parameters
    ----------
    db : Database
        The open database.
    dataset : str
        Data set that both belong to.

    Returns
    -------
    pd.DataFrame
        profile_workload, corun_workload, score (0.5 to 1), reason: the best proposal for each profile whose workload is
        in no co-run, the surest first. A profile that resembles none is left out.
    """
    known = sources.workloads(db, Filter(datasets=(dataset,)))
    profiles = known[(known["profiles"] > 0) & (known["runs"] == 0)].to_dict("records")
    coruns = known[known["runs"] > 0].to_dict("records")
    before = dict(zip(*(aliases(db, dataset)[name] for name in ("alias", "workload")), strict=True))
    rows = []
    for profile in profiles:
        ranked = sorted(((*_score(profile, other), str(other["workload"])) for other in coruns), key=_order)
        again = before.get(str(profile["workload"]))
        if again in {name for _, _, name in ranked}:
            rows.append((profile["workload"], again, 1.0, "confirmed before, for another file of the same name"))
            continue
        if not ranked or ranked[0][0] < LEAST:
            continue
        score, reason, name = ranked[0]
        rivals = [other for rival, _, other in ranked[1:] if rival == score]
        if rivals:
            reason += f"; {rivals[0]} fits as well" if len(rivals) == 1 else f"; {len(rivals)} others fit as well"
        rows.append((profile["workload"], name, score, reason))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)


def apply(db: Database, dataset: str, mapping: Mapping[str, str]) -> None:
    """Join workloads that the user says are the same.

    Parameters
    ----------
    db : Database
        The open database.
    dataset : str
        Data set that they belong to.
    mapping : mapping of str to str
        Name of the profile's workload -> name of the co-runs' workload, under which both stand afterwards. Launches,
        solo values and features keep their sources; the decision is remembered and proposed again for later files.

    Raises
    ------
    NotFoundError
        If a profile's workload isn't in the data set.
    UsageError
        If a name would both go and stay.
    """
    merge_workloads(db, dataset, mapping)


def _order(candidate: tuple[float, str, str]) -> tuple[float, str]:
    return -candidate[0], candidate[2]


def _score(profile: Mapping[Any, Any], other: Mapping[Any, Any]) -> tuple[float, str]:
    """Say how alike two workloads are, and why in words."""
    score, alike = _model(profile, other)
    same, differs, open_ = [alike], [], []
    for name, (words, wrong, unknown) in _SETTINGS.items():
        ours, theirs = _text(profile[name]), _text(other[name])
        if not ours and not theirs:
            continue
        if not ours or not theirs:
            score *= unknown
            open_.append(words)
        elif ours.casefold() == theirs.casefold():
            same.append(f"{words} {ours}")
        elif name == "precision" and {ours, theirs} <= _HALF:
            score *= 0.95
            same.append(f"precision {ours} like {theirs}")
        else:
            score *= wrong
            differs.append(f"{words} {ours} against {theirs}")
    reason = ", ".join(same)
    if differs:
        reason += "; differs in " + ", ".join(differs)
    if open_:
        reason += "; not known on both sides: " + ", ".join(open_)
    return round(score, 3), reason


def _model(profile: Mapping[Any, Any], other: Mapping[Any, Any]) -> tuple[float, str]:
    ours, theirs = (_text(row["model"]) or _text(row["workload"]) for row in (profile, other))
    plain, plain_other = _plain(ours), _plain(theirs)
    if plain == plain_other:
        return 1.0, f"model {theirs}"
    words, words_other = set(_words(ours)), set(_words(theirs))
    shorter = min(words, words_other, key=len)
    # A lone letter or number inside another name says nothing.
    if any(len(word) > 2 for word in shorter) and (words <= words_other or words_other <= words):
        return 0.8, f"model {ours} is part of {theirs}" if words <= words_other else f"model {theirs} is part of {ours}"
    ratio = SequenceMatcher(None, plain, plain_other).ratio()
    return 0.9 * ratio, f"model {ours} resembles {theirs}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", text.casefold()) if word]


def _text(value: object) -> str:
    """Return a value as text; blank for the several forms of nothing."""
    if value is None or value is pd.NA or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
