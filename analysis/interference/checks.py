"""All checks of the data, run together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from analysis.interference.finding import Finding
from analysis.interference.rules import baselines, campaigns, counters, outcomes, values
from analysis.interference.rules.baselines import flagged_workloads
from analysis.store.database import Database
from analysis.store.queries.sources import require_dataset

__all__ = ["RULES", "Finding", "flagged_workloads", "run_checks"]

Rule = Callable[[Database, str | None], list[Finding]]

#: The rules by name, in the order of the page.
RULES: Mapping[str, Rule] = {
    "minimum-slowdown": baselines.minimum_slowdown,
    "faster-than-alone": baselines.faster_than_alone,
    "exactly-one": values.exactly_one,
    "hard-coded": values.hard_coded,
    "other-solo": values.other_solo,
    "averaged-self-pairs": values.averaged_self_pairs,
    "pooled-campaigns": campaigns.pooled_campaigns,
    "remeasured-baselines": campaigns.remeasured_baselines,
    "repeated-measurements": campaigns.repeated_measurements,
    "repeated-exports": campaigns.repeated_exports,
    "mixed-origin": campaigns.mixed_origin,
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
