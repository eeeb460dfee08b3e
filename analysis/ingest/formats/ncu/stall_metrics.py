"""Stall metrics among the rows of a profile: which row counts for which reason, so that nothing counts twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.ingest.contract.cells import Ints
from analysis.reference.stall_reasons import FAMILIES, StallFamily, StallMetric, resolve

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ORDER = {family.name: place for place, family in enumerate(FAMILIES)}


@dataclass(frozen=True)
class Marks:
    """Which rows count as stall reasons.

    Attributes
    ----------
    family, reason : ndarray of int64
        For every row a number into `families` and `reasons`, -1 for none. A row with a reason and no family repeats
        what another row of its launch says (``.pct`` beside ``.ratio``, a label beside a name).
    families, reasons : list of str
        Names.
    values : ndarray of float64
        Values of all rows, those that count taken to the unit of their family.
    """

    family: Ints
    reason: Ints
    families: list[str]
    reasons: list[str]
    values: Floats

    @cached_property
    def present(self) -> frozenset[tuple[str, str]]:
        """Families and reasons that have a value."""
        has = (self.family >= 0) & ~np.isnan(self.values)
        width = max(len(self.reasons), 1)
        key = self.family.astype(np.int32)
        key *= width
        key += self.reason
        # One place more for the rows that do not count.
        key[~has] = len(self.families) * width
        found = np.flatnonzero(np.bincount(key, minlength=len(self.families) * width)[: len(self.families) * width])
        return frozenset((self.families[code // width], self.reasons[code % width]) for code in found)

    def found(self) -> list[str]:
        """Return the reasons that have a value, sorted."""
        return sorted({reason for _, reason in self.present})

    def main_family(self) -> StallFamily | None:
        """Return the family to show: of those with values the first in the order of preference."""
        names = {family for family, _ in self.present}
        return next((family for family in FAMILIES if family.name in names), None)


def mark(launch: Ints, metric: Ints, names: Sequence[str], values: Floats) -> Marks:
    """Mark the rows that count.

    Parameters
    ----------
    launch, metric : ndarray of int64
        Launch and metric (a number into `names`) of each row.
    names : sequence of str
        Distinct metric names.
    values : ndarray of float64
        Values, NaN where missing.

    Returns
    -------
    Marks
        Of several rows of a launch for one family and reason the one counts that has a value and the best suffix.
    """
    resolved = [resolve(name) for name in names]
    families = sorted({item.family for item in resolved if item}, key=_ORDER.__getitem__)
    reasons = sorted({item.reason for item in resolved if item})
    blank = np.full(len(launch), -1, dtype=np.int16)
    if not families:
        return Marks(blank, blank.copy(), families, reasons, values)
    family_of, reason_of, rank_of, scale_of = _facts(resolved, families, reasons)
    pair_of = family_of.astype(np.int64) * len(reasons) + reason_of
    counted = rank_of >= 0
    pairs = pair_of[counted]
    plain = len(np.unique(pairs)) == len(pairs) and (scale_of[counted] == 1.0).all()
    if plain and each_once(launch, metric):
        return Marks(np.where(counted, family_of, np.int16(-1))[metric], reason_of[metric], families, reasons, values)
    stalls = np.flatnonzero(counted[metric])
    which = metric[stalls]
    key = launch[stalls] * (len(families) * len(reasons)) + pair_of[which]
    chosen = stalls
    if len(key) and np.bincount(key).max() > 1:
        # A value that is missing loses against any other; then the suffix decides, then the place in the file.
        order = rank_of[which] + 1000 * np.isnan(values[stalls])
        sorted_rows = np.lexsort((stalls, order, key))
        ordered = key[sorted_rows]
        begins = np.ones(len(ordered), dtype=bool)
        begins[1:] = ordered[1:] != ordered[:-1]
        chosen = stalls[sorted_rows[begins]]
    if (scale_of[counted] == 0.0).any():
        chosen = chosen[~_mixed(launch[chosen], metric[chosen], family_of, rank_of, scale_of)]
    family = np.full(len(launch), -1, dtype=np.int16)
    family[chosen] = family_of[metric[chosen]]
    scaled = values
    factor = scale_of[metric[chosen]]
    if np.any((factor != 1.0) & (factor != 0.0)):
        scaled = values.copy()
        scaled[chosen] = np.where(factor > 0, values[chosen] * factor, values[chosen])
    return Marks(family, reason_of[metric], families, reasons, scaled)


def each_once(launch: Ints, metric: Ints) -> bool:
    """Say whether no metric stands twice in a launch, from the order alone: metrics as the first launch has them."""
    next_launch, same_launch = launch[1:] > launch[:-1], launch[1:] == launch[:-1]
    return bool((next_launch | same_launch & (metric[1:] > metric[:-1])).all())


def _facts(
    resolved: Sequence[StallMetric | None], families: list[str], reasons: list[str]
) -> tuple[Ints, Ints, Ints, Floats]:
    """Return family, reason, rank of the suffix and scale for each metric name."""
    family = np.array([families.index(item.family) if item else -1 for item in resolved], dtype=np.int16)
    reason = np.array([reasons.index(item.reason) if item else -1 for item in resolved], dtype=np.int16)
    rank = np.array([-1 if item is None or item.rank is None else item.rank for item in resolved], dtype=np.int16)
    scale = np.array([item.scale if item else 0.0 for item in resolved], dtype=np.float64)
    return family, reason, rank, scale


def _mixed(launch: Ints, metric: Ints, family_of: Ints, rank_of: Ints, scale_of: Floats) -> Bools:
    """Find rows whose suffix can't be put beside the better one that other reasons of their launch have.

    An average over units and a sum over them differ by the number of units, which the file does not state.
    """
    groups = int(family_of.max()) + 1
    place = launch * groups + family_of[metric]
    best = np.full(int(place.max()) + 1 if len(place) else 0, np.iinfo(np.int64).max)
    np.minimum.at(best, place, rank_of[metric])
    mixed: Bools = (scale_of[metric] == 0.0) & (rank_of[metric] > best[place])
    return mixed


def accounted(
    marks: Marks, launch: Ints, metric: Ints, names: Sequence[str], values: Floats, launches: int
) -> tuple[Floats, str | None]:
    """Return the share of warp cycles that the reasons explain, in percent, for each launch.

    Parameters
    ----------
    marks : Marks
        Which rows count.
    launch, metric, names, values
        As for `mark`.
    launches : int
        Number of launches.

    Returns
    -------
    tuple of ndarray and str
        NaN for launches without reasons or without a total; the metric that states the total, None for percentages.
    """
    family = marks.main_family()
    share = np.full(launches, np.nan)
    if family is None:
        return share, None
    rows = np.flatnonzero((marks.family == marks.families.index(family.name)) & ~np.isnan(marks.values))
    of = launch[rows]
    total = np.bincount(of, weights=marks.values[rows], minlength=launches)
    any_row = np.bincount(of, minlength=launches) > 0
    if family.kind == "percent":
        share[any_row] = total[any_row]
        return share, None
    for name in family.totals:
        if name not in names:
            continue
        stated = np.full(launches, np.nan)
        at = (metric == list(names).index(name)) & ~np.isnan(values)
        stated[launch[at]] = values[at]
        fits = any_row & (stated > 0) & np.isnan(share)
        share[fits] = 100.0 * total[fits] / stated[fits]
        return share, name
    return share, None
