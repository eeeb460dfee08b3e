"""What leaving out a rule's rows means: each rule's rows stand for runs, slowdowns, baselines, profiles or counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.exclusions import Scope


@dataclass(frozen=True)
class Meaning:
    """What a rule's exclusion does.

    Attributes
    ----------
    scope : str or None
        What one row stands for; None where there is nothing to leave out.
    sentence : str
        The same for a person.
    """

    scope: Scope | None
    sentence: str


_SLOWDOWN = "These slowdowns have no value any more; the jobs still count as co-runners of the others in their runs."
_BASELINE = (
    "The solo baselines of these workloads on this GPU and every slowdown that was computed with them have no value "
    "any more; the workloads still count as co-runners."
)
_SERIES = "These counters of this device, from this file, are not read any more."

#: What leaving out the rows of each rule means.
MEANINGS: Mapping[str, Meaning] = {
    "minimum-slowdown": Meaning("solo", _BASELINE),
    "faster-than-alone": Meaning("member", _SLOWDOWN),
    "starved": Meaning("member", _SLOWDOWN),
    "turn-taking": Meaning("run", "These runs are as if never measured."),
    "too-much-work": Meaning("run", "These runs are as if never measured."),
    "exactly-one": Meaning("member", _SLOWDOWN),
    "hard-coded": Meaning("run", "These runs are as if never measured, for the partners of the hard-coded jobs too."),
    "other-solo": Meaning("member", _SLOWDOWN),
    "averaged-self-pairs": Meaning("run", "These pairs of a workload with itself are as if never measured."),
    "pooled-campaigns": Meaning("solo", _BASELINE),
    "remeasured-baselines": Meaning("member", _SLOWDOWN),
    "repeated-measurements": Meaning("run", "The first of each set of copies stays; the others are left out."),
    "repeated-exports": Meaning("source", "All that the file of a row brought is left out; the other file stays."),
    "mixed-origin": Meaning("source", "Everything that the simulated files brought is left out."),
    "identical-data-sets": Meaning(None, "Data sets are never pooled, so no figure counts both; remove one of them."),
    "mirrored-cells": Meaning(None, "Each pair counts once already, so there is nothing to leave out."),
    "set-aside": Meaning(None, "No figure counts these rows, so there is nothing to leave out."),
    "did-not-run": Meaning("run", "These sets are as if never tried: not measured, instead of did not run."),
    "zero-values": Meaning("member", _SLOWDOWN),
    "measured-during-corun": Meaning(None, "No figure reads these columns, so there is nothing to leave out."),
    "idle-counters": Meaning("series", _SERIES),
    "identical-series": Meaning("series", _SERIES),
    "above-peak": Meaning(
        "value",
        "These values are left out: of a launch as if the tool had not printed them, of telemetry with the whole "
        "counter of the device.",
    ),
    "clocks-differ": Meaning("profile", "These profiles, with all their launches, are left out."),
    "client-caps": Meaning("run", "The runs with capped clients are as if never measured; those without caps stay."),
}


def things(database: Database, rule: str, rows: pd.DataFrame, dataset: str | None) -> pd.DataFrame:
    """Return the things that rows of a finding stand for, as `analysis.store.queries.exclusions.exclude` takes them.

    Parameters
    ----------
    database : Database
        The open database.
    rule : str
        The rule that found the rows.
    rows : pd.DataFrame
        Rows of its finding.
    dataset : str, optional
        For rows that span two data sets: the one to take from; both by default.
    """
    if rule == "repeated-measurements":
        copies = [int(run) for runs in rows["run_ids"] for run in list(runs)[1:]]
        return pd.DataFrame({"run_id": copies})
    if rule == "remeasured-baselines":
        return _twins(database, rows, dataset)
    columns = {
        "run": ["run_id"], "member": ["run_id", "slot"], "solo": ["dataset", "gpu", "workload"],
        "profile": ["dataset", "gpu", "workload"], "series": ["source_id", "device", "name"], "source": ["source_id"],
        "value": ["source_id", "origin", "workload_id", "gpu", "kernel_id", "name"],
    }  # fmt: skip
    return rows[columns[cast(str, MEANINGS[rule].scope)]].drop_duplicates().reset_index(drop=True)


def _twins(database: Database, rows: pd.DataFrame, dataset: str | None) -> pd.DataFrame:
    """Find the members whose co-run value stands in two data sets."""
    wanted = []
    for name, solo in (("dataset", "solo_value"), ("other_dataset", "other_solo_value")):
        chosen = rows[rows[name] == dataset] if dataset else rows
        part = chosen[[name, "gpu", "workload", "corun_value", solo]]
        wanted.append(part.set_axis(["dataset", "gpu", "workload", "corun_value", "solo_value"], axis=1))
    keys = pd.concat(wanted, ignore_index=True).drop_duplicates()
    members = coruns.members(database, Filter(datasets=tuple(keys["dataset"].unique())))
    return members.merge(keys, on=list(keys.columns))[["run_id", "slot"]].drop_duplicates()
