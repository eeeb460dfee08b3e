"""Solo against co-run: which waits grew when a job ran beside others, resource by resource.

Samples of the program counter belong to one process, so they can be taken beside another job; counters under CUDA MPS
add all clients up and can't. A profile that was sampled during a co-run is a workload called ``JOB beside OTHER``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.numbers import significant
from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME
from analysis.stalls.launches import read
from analysis.stalls.resources import RESOURCES
from analysis.stalls.sides import Side, side
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import profiles

#: Between a job's name and those beside it, in the name of a profile that was taken during a co-run.
BESIDE = " beside "

#: Families that tell processes apart.
SAMPLED = ("pcsamp", "source_page")

COLUMNS = [
    "resource", "title", "share_solo", "share_corun", "difference", "samples_solo", "samples_corun", "grew",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Growth:
    """What waiting became beside others.

    Attributes
    ----------
    solo, corun : Side
        The job alone and beside others.
    family : str or None
        Family of the samples that both hold; None where they hold none.
    rows : pd.DataFrame
        One row a resource, the one that grew most first: resource, title, share_solo and share_corun (percent of
        samples), difference (points), samples_solo and samples_corun (of one launch), grew (co-run over solo samples
        of one launch; comparable only at one sampling period and the same work).
    reasons : pd.DataFrame
        The same by stall reason, with reason and group in place of resource and title.
    """

    solo: Side
    corun: Side
    family: str | None
    rows: pd.DataFrame
    reasons: pd.DataFrame

    def sentence(self) -> str:
        """Say which resource's waits grew most."""
        if self.family is None:
            return (
                f"{self.corun.name} and {self.solo.name} hold no samples of one kind, so what grew can't be said. "
                "Counters taken beside other jobs add all processes up; sample with "
                "`ncu --metrics group:smsp__pcsamp_warp_stall_reasons`."
            )
        row = self.rows.iloc[0]
        moved = "more" if row["difference"] >= 0 else "less"
        return (
            f"Beside others {self.solo.workload} waits most additionally for {row['title']}: "
            f"{significant(row['share_corun'])} % of its samples after {significant(row['share_solo'])} % alone, "
            f"{significant(abs(row['difference']))} points {moved}."
        )


def coruns(database: Database, chosen: Filter | None = None) -> pd.DataFrame:
    """Return the profiles taken beside others: dataset, gpu, workload, solo (the job's own profile), beside."""
    found = profiles.workloads(database, chosen)
    known = set(found.itertuples(index=False, name=None))
    rows = [
        (dataset, gpu, workload, workload.split(BESIDE, 1)[0], workload.split(BESIDE, 1)[1])
        for dataset, workload, gpu in known
        if BESIDE in workload and (dataset, workload.split(BESIDE, 1)[0], gpu) in known
    ]
    return pd.DataFrame(sorted(rows), columns=["dataset", "gpu", "workload", "solo", "beside"])


def growth(database: Database, dataset: str, gpu: str, solo: str, corun: str) -> Growth:
    """Compare a job alone with the same job beside others.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu : str
        Where both were profiled.
    solo, corun : str
        Workloads: the job, and the job ``beside`` others.

    Raises
    ------
    NotFoundError
        If one of them is not profiled there.
    """
    place = Filter(datasets=(dataset,), gpus=(gpu,))
    sides = [side(database, place.with_(workloads=(name,))) for name in (solo, corun)]
    found = [_samples(database, one) for one in sides]
    family = next((name for name in SAMPLED if all(name in tables for tables in found)), None)
    if family is None:
        return Growth(sides[0], sides[1], None, pd.DataFrame(columns=COLUMNS), pd.DataFrame())
    both = pd.concat([tables[family] for tables in found], axis=1, keys=["solo", "corun"])
    both.columns = pd.Index(["samples_solo", "samples_corun"])
    both["group"] = [stall_reasons.group_of(str(reason)) for reason in both.index]
    resource_of = {group: one for one in RESOURCES for group in one.groups}
    table = both.assign(
        resource=[resource_of[group].name if group in resource_of else group for group in both["group"]],
        title=[_title(group) for group in both["group"]],
    )
    by_resource = table.groupby(["resource", "title"])[["samples_solo", "samples_corun"]].sum(min_count=1).reset_index()
    reasons = both.rename_axis("reason").reset_index()
    return Growth(sides[0], sides[1], family, _grown(by_resource, ["resource", "title"]),
                  _grown(reasons, ["reason", "group"]))  # fmt: skip


def _grown(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    solo, corun = table["samples_solo"].to_numpy(float), table["samples_corun"].to_numpy(float)
    table["share_solo"] = 100 * solo / np.nansum(solo)
    table["share_corun"] = 100 * corun / np.nansum(corun)
    table["difference"] = table["share_corun"] - table["share_solo"]
    table["grew"] = np.divide(corun, solo, out=np.full(len(table), np.nan), where=solo > 0)
    ordered = table.sort_values("difference", ascending=False, kind="stable", na_position="last")
    return ordered[[*names, *COLUMNS[2:]]].reset_index(drop=True)


def _samples(database: Database, one: Side) -> dict[str, pd.Series[float]]:
    """Return samples of one launch by reason, for each family of samples that a side holds."""
    stalls = read(database, one.chosen)
    times = stalls.launches["invocations"].to_numpy(float)
    found = {}
    for family in SAMPLED:
        codes = np.flatnonzero((stalls.entries["stall_family"] == family).to_numpy())
        kept = np.isin(stalls.entry, codes)
        if BY_NAME[family].kind != "count" or not kept.any():
            continue
        launches = float(times[np.unique(stalls.position[kept])].sum())
        sums = pd.Series(stalls.value[kept]).groupby(stalls.entry[kept]).sum()
        sums.index = pd.Index(stalls.entries["reason"].to_numpy()[sums.index.to_numpy()])
        found[family] = sums.astype(float) / launches
    return found


def _title(group: str) -> str:
    named = next((one.title for one in RESOURCES if group in one.groups), group)
    return "global or local memory" if named.startswith("global or local") else named
