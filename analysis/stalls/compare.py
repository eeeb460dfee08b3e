"""Two profiles side by side: which waits grew, kernel by kernel, and what can't be compared.

Kernels are paired by name, grid and block: another problem size is another kernel. A reason that one GPU can't report
is not available there, not zero. Profiles of nvprof and of Nsight Compute meet only in nvprof's classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import UsageError
from analysis.ingest.formats.ncu.advice import COMMAND
from analysis.reference import stall_reasons
from analysis.reference.stall_families import BY_NAME, FAMILIES
from analysis.stalls.cautions import PAIR, cautions
from analysis.stalls.shares import stall_shares
from analysis.stalls.sides import Side
from analysis.store.database import Database
from analysis.store.queries import profiles

NVPROF = "nvprof"


def in_classes(shares: pd.DataFrame, by: str) -> pd.DataFrame:
    """Bring stall shares to nvprof's classes, as percent of the cycles in which warps did not issue.

    Parameters
    ----------
    shares : pd.DataFrame
        Rows of `analysis.stalls.shares.stall_shares` of one workload on one GPU.
    by : {"workload", "kernel"}
        What a row of it stands for.

    Returns
    -------
    pd.DataFrame
        The same columns with classes as reasons; cycles are NaN, as nvprof has none. Reasons that no class stands for
        are left out. A table of nvprof's own comes back as it is.
    """
    if shares.empty or (shares["stall_family"] == NVPROF).all():
        return shares
    class_of = {reason: name for name, reasons in stall_reasons.nvprof_classes().items() for reason in reasons}
    keys = ["workload"] if by == "workload" else ["kernel", "grid", "block"]
    frame = shares.copy()
    selected = (
        frame["share"].where(frame["reason"] == "selected", 0.0).groupby([frame[k] for k in keys]).transform("sum")
    )
    # nvprof does not count the cycle in which a warp issues.
    frame["share"] = 100 * frame["share"] / (100 - selected)
    frame["reason"] = frame["reason"].map(class_of)
    frame = frame.dropna(subset=["reason"])
    first = {name: "first" for name in frame.columns if name not in (*keys, "reason", "share", "cycles")}
    brought = frame.groupby([*keys, "reason"], as_index=False, dropna=False).agg({"share": "sum", **first})
    brought["cycles"] = np.nan
    brought["group"] = [stall_reasons.group_of(str(name)) for name in brought["reason"]]
    return brought


def title(reason: str) -> str:
    """Return a reason's name for the middle of a sentence."""
    table = stall_reasons.load()
    text = str(table.at[reason, "title"]) if reason in table.index else reason.replace("_", " ")
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def apart(base: Side, other: Side, families: tuple[str | None, str | None], wanted: str) -> str:
    """Say that two families can't be compared, and which export makes them comparable.

    Parameters
    ----------
    base, other : Side
        What is compared.
    families : tuple of str
        Family of each.
    wanted : str
        The family that both are to be exported in.
    """
    first, second = (BY_NAME[str(name)].title for name in families)
    sides = zip((base, other), families, strict=True)
    lacking = " and ".join(side.name for side, family in sides if family != wanted)
    return (
        f"{base.name} and {other.name} can't be compared reason by reason: the one holds {first}, the other {second}, "
        f"and families of metrics have no common scale. Profile {lacking} again with `ncu --section WarpStateStats`, "
        f"which gives {BY_NAME[wanted].title}."
    )


def each(base: Side, other: Side, totals: pd.DataFrame) -> str:
    """Say each side's largest reason for itself; empty where neither has one."""
    parts = []
    for side, column in ((base, "share_base"), (other, "share_other")):
        rows = totals[totals[column].notna() & (totals["reason"] != "selected")]
        if len(rows):
            row = rows.iloc[int(rows[column].to_numpy().argmax())]
            parts.append(f"{side.name} {title(str(row['reason']))}, {row[column]:.1f} %")
    return f"Each for itself, the largest reasons are: {'; '.join(parts)}." if parts else ""


def by_rules(base: Side, other: Side, top: pd.DataFrame) -> str:
    """Say what rule texts alone name, of the longest such kernel of each side; empty where there is none."""
    said = []
    for side, which in ((base, "base"), (other, "other")):
        rows = top[top["side"] == which]
        if len(rows):
            row = rows.iloc[0]
            share = "" if pd.isna(row["share"]) else f" ({row['share']:.1f} % of its warp cycles)"
            said.append(
                f"By rule text only, {side.name} waits most for {title(str(row['reason']))}{share} in the kernel "
                f"{row['short_name']}; the other reasons are unknown."
            )
    return " ".join(said)


#: What is compared where one side comes from nvprof and the other does not.
CLASSES = "nvprof classes"

#: Family that `COMMAND` exports, and that profiles of different families are to be exported in again.
WANTED = "per_issue_active"

#: State of a reason whose two sides stand in different families.
OTHER_FAMILY = "another family of metrics"


@dataclass(frozen=True, eq=False)
class Comparison:
    """A baseline beside another profile.

    Attributes
    ----------
    base, other : Side
        What is compared.
    unit : str
        ``reasons``, or ``nvprof classes`` where one side comes from nvprof.
    families : tuple of str or None
        Family of metrics that each side's shares rest on.
    totals : pd.DataFrame
        One row a reason, the largest difference first: reason, group, share_base, share_other, difference (percentage
        points), cycles_base, cycles_other, cycles_difference, state (``both``, ``not available on BASE``, ``not
        available on OTHER``, ``not reported by BASE`` ..., or ``another family of metrics``: then no difference).
    kernels : pd.DataFrame
        The same for each paired kernel: kernel, short_name, grid, block, then as ``totals``.
    pairs : pd.DataFrame
        One row a paired kernel: kernel, short_name, grid, block, launches_base, launches_other, time_base_ns,
        time_other_ns (mean of a launch), slower (percent, other over base).
    unmatched : pd.DataFrame
        Kernels without a partner: side, kernel, short_name, grid, block, launches.
    slower : float
        By how many percent the base's launches would take longer at the other's mean durations, over paired kernels;
        NaN without durations.
    top_reasons : pd.DataFrame
        Largest reasons that only rule texts name: side, kernel, short_name, reason, share, text.
    warnings : tuple of str
        What limits the comparison, one sentence each.
    """

    base: Side
    other: Side
    unit: str
    families: tuple[str | None, str | None]
    totals: pd.DataFrame
    kernels: pd.DataFrame
    pairs: pd.DataFrame
    unmatched: pd.DataFrame
    slower: float
    top_reasons: pd.DataFrame
    warnings: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return the comparison with plain lists, None for no value, as the command line prints it."""
        return {
            "base": {"workload": self.base.workload, "gpu": self.base.gpu, "simulated": self.base.simulated},
            "other": {"workload": self.other.workload, "gpu": self.other.gpu, "simulated": self.other.simulated},
            "unit": self.unit,
            "families": list(self.families),
            "slower": None if math.isnan(self.slower) else self.slower,
            **{
                name: _records(getattr(self, name))
                for name in ("totals", "kernels", "pairs", "unmatched", "top_reasons")
            },
            "comparable": not self.apart and None not in self.families,
            "command": self.command,
            "sentence": self.sentence(),
            "warnings": list(self.warnings),
        }

    @property
    def apart(self) -> bool:
        """Whether the sides report different families of metrics, so that no difference of them means anything."""
        known = None not in self.families
        return known and self.families[0] != self.families[1] and self.unit != CLASSES

    @property
    def command(self) -> str | None:
        """The command that gets what is missing for comparing reason by reason; None where nothing is."""
        return COMMAND if self.apart or None in self.families else None

    def sentence(self) -> str:
        """Say the largest difference in words, or why there is none."""
        if self.apart:
            return (
                f"{apart(self.base, self.other, self.families, WANTED)} {each(self.base, self.other, self.totals)}"
            ).strip()
        if None in self.families:
            nothing = f"Nothing of {self.base.name} and {self.other.name} can be compared reason by reason."
            return f"{nothing} {by_rules(self.base, self.other, self.top_reasons)}".strip()
        both = self.totals[self.totals["state"] == "both"]
        if both.empty:
            return f"Nothing of {self.base.name} and {self.other.name} can be compared reason by reason."
        row = both.iloc[0]
        grew = "more" if row["difference"] > 0 else "less"
        return (
            f"{self.other.name} spends {abs(row['difference']):.1f} percentage points {grew} of its warp cycles on "
            f"{title(str(row['reason']))} than {self.base.name}: {row['share_other']:.1f} % after "
            f"{row['share_base']:.1f} %."
        )


def compare(database: Database, base: Side, other: Side) -> Comparison:
    """Compare two profiles.

    Parameters
    ----------
    database : Database
        The open database.
    base, other : Side
        See `analysis.stalls.sides.side` and `analysis.stalls.sides.find`.

    Returns
    -------
    Comparison
        Differences are other minus base.
    """
    family = _common_family(database, base, other)
    tables = [
        {by: stall_shares(database, one.chosen, by, family=family) for by in ("workload", "kernel")}
        for one in (base, other)
    ]
    families = tuple(str(t["workload"]["stall_family"].iloc[0]) if len(t["workload"]) else None for t in tables)
    classes = NVPROF in families and families[0] != families[1]
    if classes:
        tables = [{by: in_classes(frame, by) for by, frame in t.items()} for t in tables]
    availability = [None if classes else one.available() for one in (base, other)]
    apart = not classes and None not in families and families[0] != families[1]
    totals = _differences(tables[0]["workload"], tables[1]["workload"], [], availability, apart)
    kernels = _differences(tables[0]["kernel"], tables[1]["kernel"], PAIR, availability, apart)
    pairs, unmatched, slower = _pairs(database, base, other)
    top = pd.concat([_top_reasons(database, one, which) for one, which in ((base, "base"), (other, "other"))])
    warnings = cautions(database, base, other, tables, (families[0], families[1]), classes, pairs)
    return Comparison(
        base, other, CLASSES if classes else "reasons", (families[0], families[1]), totals, kernels, pairs,
        unmatched, slower, top.reset_index(drop=True), tuple(warnings),
    )  # fmt: skip


def _common_family(database: Database, base: Side, other: Side) -> str | None:
    """Return the first family that both sides report, None where they share none."""
    found = []
    for one in (base, other):
        metrics = profiles.stall_metrics(database, one.chosen)
        found.append(set(metrics.loc[metrics["value"].notna(), "stall_family"]))
    return next((family.name for family in FAMILIES if family.name in found[0] & found[1]), None)


def _differences(
    base: pd.DataFrame, other: pd.DataFrame, keys: list[str], availability: list[frozenset[str] | None], apart: bool
) -> pd.DataFrame:
    columns = [*keys, *(["short_name"] if keys else []), "reason", "group", "share", "cycles"]
    on = [*keys, "reason"]
    kept = ["group", *(["short_name"] if keys else [])]
    merged = base[columns].merge(other[columns], on=on, how="outer", suffixes=("_base", "_other"))
    for name in kept:
        merged[name] = merged[f"{name}_base"].fillna(merged[f"{name}_other"])
    if keys:
        both = base[keys].drop_duplicates().merge(other[keys].drop_duplicates(), on=keys)
        merged = merged.merge(both, on=keys)
    numbers = ["share_base", "share_other", "cycles_base", "cycles_other"]
    merged[numbers] = merged[numbers].astype(float)
    merged["difference"] = merged["share_other"] - merged["share_base"]
    merged["cycles_difference"] = merged["cycles_other"] - merged["cycles_base"]
    merged["state"] = [
        _state(str(reason), pd.notna(a), pd.notna(b), availability)
        for reason, a, b in merged[["reason", "share_base", "share_other"]].itertuples(index=False)
    ]
    if apart:
        merged[["difference", "cycles_difference"]] = math.nan
        merged["state"] = OTHER_FAMILY
    merged["size"] = merged["difference"].abs().fillna(-1.0)
    shown = [
        *keys, *(["short_name"] if keys else []), "reason", "group", "share_base", "share_other", "difference",
        "cycles_base", "cycles_other", "cycles_difference", "state",
    ]  # fmt: skip
    return merged.sort_values("size", ascending=False, kind="stable")[shown].reset_index(drop=True)


def _state(reason: str, in_base: bool, in_other: bool, availability: list[frozenset[str] | None]) -> str:
    if in_base and in_other:
        return "both"
    side, known = ("other", availability[1]) if in_base else ("base", availability[0])
    return f"not available on {side}" if known is not None and reason not in known else f"not reported by {side}"


def _pairs(database: Database, base: Side, other: Side) -> tuple[pd.DataFrame, pd.DataFrame, float]:
    counted = []
    for one in (base, other):
        launches = profiles.kernels(database, one.chosen)
        launches[["grid", "block"]] = launches[["grid", "block"]].fillna("")
        times = launches["invocations"].astype(float)
        launches["time"] = launches["duration_ns"].astype(float) * times
        launches["timed"] = times.where(launches["duration_ns"].notna())
        counted.append(
            launches.groupby(PAIR, sort=False)
            .agg(
                short_name=("short_name", "first"), launches=("invocations", "sum"), time=("time", "sum"),
                timed=("timed", "sum"),
            )
            .assign(mean=lambda frame: frame["time"] / frame["timed"].where(frame["timed"] > 0))
            .reset_index()
        )  # fmt: skip
    merged = counted[0].merge(counted[1], on=PAIR, how="outer", suffixes=("_base", "_other"), indicator="side")
    merged["short_name"] = merged["short_name_base"].fillna(merged["short_name_other"])
    both = merged[merged["side"] == "both"].copy()
    both["slower"] = 100 * (both["mean_other"] / both["mean_base"] - 1)
    timed = both.dropna(subset=["slower"])
    was = float((timed["mean_base"] * timed["launches_base"]).sum())
    now = float((timed["mean_other"] * timed["launches_base"]).sum())
    pairs = both.rename(columns={"mean_base": "time_base_ns", "mean_other": "time_other_ns"})
    pairs = pairs.sort_values("time_base_ns", ascending=False, kind="stable")[
        [*PAIR, "short_name", "launches_base", "launches_other", "time_base_ns", "time_other_ns", "slower"]
    ].reset_index(drop=True)
    alone = merged[merged["side"] != "both"].copy()
    alone["side"] = alone["side"].astype(str).map({"left_only": "base", "right_only": "other"})
    alone["launches"] = alone["launches_base"].fillna(alone["launches_other"]).astype(int)
    unmatched = alone[["side", *PAIR, "short_name", "launches"]].sort_values(["side", "kernel"], kind="stable")
    return pairs, unmatched.reset_index(drop=True), 100 * (now / was - 1) if was > 0 else math.nan


def _top_reasons(database: Database, one: Side, which: str) -> pd.DataFrame:
    """Return what rule texts say of launches that have no stall metrics of their own."""
    rules = profiles.rules(database, one.chosen)
    measured = set(profiles.stall_metrics(database, one.chosen)["kernel_id"])
    only = rules[rules["top_reason"].notna() & ~rules["kernel_id"].isin(measured)]
    only = only.sort_values("duration_ns", ascending=False, kind="stable", na_position="last")
    only = only.assign(side=which).rename(columns={"top_reason": "reason", "top_share": "share"})
    return only[["side", "kernel", "short_name", "reason", "share", "text"]]


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(key): value for key, value in row.items()} for row in rows]


#: Others beside one baseline: more bars than this can't be told apart.
MOST_OTHERS = 5

#: A difference of fewer percentage points than this is left out of the view of differences.
LEAST_POINTS = 1.0


def compare_all(database: Database, base: Side, others: Sequence[Side]) -> tuple[Comparison, ...]:
    """Compare every other profile with the baseline.

    Raises
    ------
    UsageError
        If there is none, more than `MOST_OTHERS`, or the baseline among them.
    """
    if not 0 < len(others) <= MOST_OTHERS:
        raise UsageError(
            f"a baseline is compared with one to {MOST_OTHERS} others, and {len(others)} are given", "Choose fewer."
        )
    if any((one.dataset, one.workload, one.gpu) == (base.dataset, base.workload, base.gpu) for one in others):
        raise UsageError(f"{base.name} is the baseline and an other at once", "Choose another profile beside it.")
    return tuple(compare(database, base, one) for one in others)


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return one comparison as it is, several as ``{base, comparisons[]}``."""
    documents = [one.to_json() for one in comparisons]
    return documents[0] if len(documents) == 1 else {"base": documents[0]["base"], "comparisons": documents}


def table(comparisons: Sequence[Comparison], part: str) -> pd.DataFrame:
    """Put one table of every comparison below one another.

    Parameters
    ----------
    comparisons : sequence of Comparison
        With one baseline.
    part : {"totals", "kernels", "pairs", "unmatched", "top_reasons"}
        An attribute of `Comparison`.

    Returns
    -------
    pd.DataFrame
        The columns ``other`` (workload), ``other_gpu`` and those of the part, in the order of the comparisons.
    """
    frames: list[pd.DataFrame] = []
    for one in comparisons:
        frame: pd.DataFrame = getattr(one, part).copy()
        frame.insert(0, "other", one.other.workload)
        frame.insert(1, "other_gpu", one.other.gpu)
        frames.append(frame)
    kept = [frame for frame in frames if len(frame)] or frames[:1]
    return pd.concat(kept, ignore_index=True)


def differing(frame: pd.DataFrame, least: float = LEAST_POINTS) -> pd.DataFrame:
    """Keep the rows that differ: by so many percentage points, or because one side doesn't have the reason.

    Rows where both sides are known to be zero, or nearly alike, are what the view of differences leaves out.
    """
    apart = frame["difference"].abs() >= least
    # A reason that only one side has, and that holds less than the least there, is no difference worth a row.
    alone = frame[["share_base", "share_other"]].max(axis=1).ge(least) & frame["state"].ne("both")
    # Where one side has no stall metrics at all nothing differs: it is a sentence, not a list of every reason.
    sides = [name for name in ("other", "other_gpu") if name in frame]
    both = frame["state"].eq("both")
    if len(frame):
        both = both.groupby([frame[name] for name in sides] or both * 0).transform("any")
    return pd.DataFrame(frame[(apart | alone) & both].reset_index(drop=True))


def sentence(comparisons: Sequence[Comparison]) -> str:
    """Say the largest difference of each comparison in words."""
    return " ".join(one.sentence() for one in comparisons)
