"""All checks of the data, run together."""

from __future__ import annotations

import getpass
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.errors import NotFoundError, UsageError
from analysis.interference.finding import Finding
from analysis.interference.rules import baselines, campaigns, counters, extremes, outcomes, values
from analysis.interference.rules.baselines import flagged_workloads
from analysis.interference.rules.scopes import MEANINGS, things
from analysis.store.database import Database
from analysis.store.queries import exclusions
from analysis.store.queries.sources import require_dataset

__all__ = ["RULES", "Finding", "flagged_workloads", "run_checks"]

Rule = Callable[[Database, str | None], list[Finding]]

#: The rules by name, in the order of the page.
RULES: Mapping[str, Rule] = {
    "minimum-slowdown": baselines.minimum_slowdown,
    "faster-than-alone": baselines.faster_than_alone,
    "starved": extremes.starved,
    "turn-taking": extremes.turn_taking,
    "too-much-work": extremes.too_much_work,
    "exactly-one": values.exactly_one,
    "hard-coded": values.hard_coded,
    "other-solo": values.other_solo,
    "averaged-self-pairs": values.averaged_self_pairs,
    "pooled-campaigns": campaigns.pooled_campaigns,
    "remeasured-baselines": campaigns.remeasured_baselines,
    "repeated-measurements": campaigns.repeated_measurements,
    "repeated-exports": campaigns.repeated_exports,
    "mixed-origin": campaigns.mixed_origin,
    "identical-data-sets": campaigns.identical_datasets,
    "mirrored-cells": outcomes.mirrored_cells,
    "set-aside": outcomes.set_aside,
    "did-not-run": outcomes.did_not_run,
    "zero-values": outcomes.zero_values,
    "measured-during-corun": outcomes.measured_during_corun,
    "idle-counters": counters.idle_counters,
    "identical-series": counters.identical_series,
    "above-peak": counters.above_peak,
    "clocks-differ": counters.clocks_differ,
    "client-caps": counters.caps,
}

_ORDER = {"error": 0, "warning": 1, "info": 2}


def run_checks(database: Database, dataset: str | None = None) -> list[Finding]:
    """Run every rule and return what they found, the gravest first.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str, optional
        Restrict to one data set.

    Returns
    -------
    list of Finding
        Empty when nothing was found.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    """
    if dataset is not None:
        require_dataset(database, dataset)
    found = [finding for rule in RULES.values() for finding in rule(database, dataset)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "=": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>|~)\s*(.*?)\s*")


def exclude(
    database: Database,
    rule: str,
    dataset: str | None = None,
    *,
    where: Sequence[str] = (),
    places: Sequence[str] = (),
    rows: Sequence[int] | None = None,
    why: str = "",
    by: str | None = None,
) -> list[int]:
    """Leave out of every later figure what a rule finds.

    Parameters
    ----------
    database : Database
        The open database.
    rule : str
        Name of a rule.
    dataset : str, optional
        Only what it finds in this data set; all by default.
    where : sequence of str
        Conditions on the finding's rows, such as ``gpu=V100``, ``slowdown<0.9`` or ``workload~whisper`` (contains);
        all must hold.
    places : sequence of str
        Only findings at these places, as `Finding.where` says them.
    rows : sequence of int, optional
        Only these rows of the finding, by position; all by default.
    why : str
        The reason, for those who read the figures later.
    by : str, optional
        Who decided; by default the name of the account.

    Returns
    -------
    list of int
        Ids of the decisions, one a finding.

    Raises
    ------
    UsageError
        If there is no such rule, nothing to leave out for it, or a condition can't be read.
    NotFoundError
        If the rule finds nothing, or no row meets the conditions.
    """
    scope = _meaning(rule)
    tests = [_condition(text) for text in where]
    if dataset is not None:
        require_dataset(database, dataset)
    found = [one for one in RULES[rule](database, dataset) if not places or one.where in places]
    if not found:
        raise NotFoundError(
            f"the rule {rule} finds nothing{f' in data set {dataset}' if dataset else ''}",
            "`stallscope check` lists what is found, and what is left out already.",
        )
    decided = []
    for finding in found:
        left = finding.rows if rows is None else finding.rows.iloc[list(rows)]
        for test in tests:
            left = left[test(finding)(left)]
        if len(left):
            some = [f"{len(left)} of {len(finding.rows)} rows"] if rows is not None else []
            decision = exclusions.Decision(
                dataset or str(left["dataset"].iloc[0]), rule, finding.where, " and ".join([*where, *some]),
                why.strip(), by or account(),
            )  # fmt: skip
            decided.append(exclusions.exclude(database, decision, scope, things(database, rule, left, dataset)))
    if not decided:
        raise NotFoundError(
            f"no row that the rule {rule} finds meets {' and '.join(where)}", "Take a wider condition with --where."
        )
    return decided


def keep(database: Database, rule: str, dataset: str | None = None) -> pd.DataFrame:
    """Take back every decision about a rule; returns them as `exclusions.decisions` does.

    Raises
    ------
    UsageError
        If there is no such rule.
    NotFoundError
        If nothing is left out by it.
    """
    _known(rule)
    made = exclusions.decisions(database, dataset)
    made = made[made["rule"] == rule].reset_index(drop=True)
    if made.empty:
        raise NotFoundError(
            f"nothing is left out by rule {rule}{f' in data set {dataset}' if dataset else ''}",
            "`stallscope check --excluded` lists what is.",
        )
    exclusions.keep(database, [int(number) for number in made["exclusion_id"].unique()])
    return made


def account() -> str:
    """Return the name of the account that this runs under."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number without a name
        return "unknown"


def _known(rule: str) -> None:
    if rule not in RULES:
        raise UsageError(f"there is no rule {rule!r}", f"The rules are {', '.join(RULES)}.")


def _meaning(rule: str) -> exclusions.Scope:
    _known(rule)
    meaning = MEANINGS[rule]
    if meaning.scope is None:
        raise UsageError(f"what the rule {rule} finds can't be left out", meaning.sentence)
    return meaning.scope


def _condition(text: str) -> Callable[[Finding], Callable[[pd.DataFrame], pd.Series[bool]]]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(f"the condition {text!r} can't be read", "Write it as COLUMN=VALUE, such as gpu=V100.")
    name, sign, wanted = found.groups()

    def bound(finding: Finding) -> Callable[[pd.DataFrame], pd.Series[bool]]:
        return lambda rows: _meets(finding, rows, name, sign, wanted)

    return bound


def _meets(finding: Finding, rows: pd.DataFrame, name: str, sign: str, wanted: str) -> pd.Series[bool]:
    column = _column(finding, rows, name)
    if sign == "~":
        return column.map(_text).str.contains(wanted, case=False, regex=False)
    if pd.api.types.is_numeric_dtype(column):
        try:
            number = float(wanted)
        except ValueError:
            raise UsageError(f"{name} is a number, {wanted!r} is none", "Compare it with a number.") from None
        compared: pd.Series[bool] = _COMPARISONS[sign](column.astype(float), number)
        return compared
    if sign not in ("=", "!="):
        raise UsageError(f"{name} is no number", f"Use {name}=VALUE, or {name}~PART.")
    equal = column.map(_text).str.casefold() == wanted.casefold()
    return equal if sign == "=" else ~equal


def _column(finding: Finding, rows: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name in rows:
        return rows[name]
    there = ", ".join(str(column) for column in rows.columns)
    raise UsageError(f"rows of the rule {finding.rule} have no column {name!r}", f"They have {there}.")


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return " + ".join(str(part) for part in value)
    return str(value)
