"""The slowdown matrix of one data set, GPU and mechanism: who is slowed, by whom, and which cells to doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.interference.choose import choose
from analysis.interference.finding import counted, named
from analysis.interference.rules.baselines import FASTER_THAN_ALONE, flagged_workloads
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, exclusions, pairs, sources

#: Marks of a member whose slowdown is no measurement of it.
DOUBTFUL_FLAGS = frozenset(pairs.DOUBTFUL_FLAGS)

#: Metrics of a run of two, as columns of `with_metrics`.
METRICS = ("stp", "antt", "fairness", "jain", "worst", "p99")


def capped_members(pairs: pd.DataFrame) -> pd.Series[bool]:
    """Say of each member whether its client was capped: fewer than all threads, or a limit of memory."""
    return (pairs["thread_percentage"].astype(float) < 100) | pairs["memory_cap_mib"].notna()


def _about_caps(beside: int, only: int) -> str:
    """Say how many runs with capped clients are left out, as their pairs also ran without caps, and how many count."""
    parts = [
        f"Left out: {counted(beside, 'run')} with capped clients, whose pairs also ran without caps." if beside else "",
        f"Shown: {counted(only, 'run')} with capped clients (thread percentage or memory); no run without caps exists."
        if only
        else "",
    ]
    return " ".join(part for part in parts if part)


def with_metrics(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the metrics of each run of two; NaN where one of them did not run or has no slowdown."""
    ran = (pairs["outcome"] == "ran") & (pairs["partner_outcome"] == "ran")
    own, other = pairs["slowdown"].where(ran), pairs["partner_slowdown"].where(ran)
    pairs["both_ran"] = ran
    pairs["own"] = own
    pairs["stp"] = 1 / own + 1 / other
    pairs["antt"] = (own + other) / 2
    pairs["fairness"] = np.minimum(own, other) / np.maximum(own, other)
    pairs["jain"] = (own + other) ** 2 / (2 * (own**2 + other**2))  # the same in S as in 1/S, for two
    pairs["worst"] = np.maximum(own, other)
    pairs["p99"] = (pairs["p99_corun_ms"] / pairs["p99_solo_ms"]).where(ran)
    return pairs


MEASURED, NOT_MEASURED, DID_NOT_RUN, FLAGGED = "measured", "not_measured", "did_not_run", "flagged"

#: Fields of a matrix that hold a value a cell, NaN for none; and all that hold something a cell.
VALUES = ("slowdown", "low", "high", *METRICS)
FIELDS = (*VALUES, "state", "runs", "failed", "capped")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SlowdownMatrix:
    """Directional slowdowns of all pairs of workloads, and the metrics of the pairs.

    All matrices are n x n in the order of ``workloads``: the row is slowed, the column slows it; NaN is no value.

    Attributes
    ----------
    dataset, gpu, mechanism : str
        What it is of.
    workloads, families : tuple of str
        Every workload with a solo measurement, or in a run that has values; and their families.
    slowdown : ndarray of float
        S of the row beside the column: the median of repeats, on the diagonal of the mean of both members.
    low, high : ndarray of float
        Smallest and largest S of the repeats.
    state : ndarray of str
        ``measured``, ``not_measured``, ``did_not_run``, or ``flagged``: there was a run, but the row's solo baseline or
        the member's own value is doubtful.
    runs : ndarray of int
        Runs behind each cell that ran.
    failed : ndarray of int
        Runs of the pair that did not run, or not completely; a cell that ran too is measured all the same.
    capped : ndarray of bool
        Whether a client behind the cell had a thread percentage below 100 or a memory cap.
    stp, antt, fairness, jain, worst, p99 : ndarray of float
        Of the pair; the median over its runs. worst is the larger S of the two, p99 the row's p99 inflation.
    flagged : frozenset of str
        Workloads whose solo baseline is off.
    n : int
        Runs of two behind the matrix, those that did not run included.
    sources : int
        Files behind it.
    simulated : bool
        Whether any of them was simulated.
    notes : tuple of str
        Decisions that the reader must know.
    excluded : tuple of mappings
        What the user left out: rule, scope (run, member, solo, source) and count. Such cells are ``not_measured``.
    """

    dataset: str
    gpu: str
    mechanism: str
    workloads: tuple[str, ...]
    families: tuple[str, ...]
    slowdown: Array
    low: Array
    high: Array
    state: npt.NDArray[np.str_]
    runs: npt.NDArray[np.int64]
    failed: npt.NDArray[np.int64]
    capped: npt.NDArray[np.bool_]
    stp: Array
    antt: Array
    fairness: Array
    jain: Array
    worst: Array
    p99: Array
    flagged: frozenset[str]
    n: int
    sources: int
    simulated: bool
    notes: tuple[str, ...] = ()
    excluded: tuple[Mapping[str, Any], ...] = ()

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Pairs whose both values count: measured, not flagged, and neither faster beside the other than alone."""
        own = (self.state == MEASURED) & ~(self.slowdown < FASTER_THAN_ALONE)
        both: npt.NDArray[np.bool_] = own & own.T
        return both

    def to_json(self) -> dict[str, Any]:
        """Return the matrix with plain lists, None for no value, as the command line prints it."""
        found = self.document()
        return found | {
            "slowdown": _plain(self.slowdown),
            "stp": _plain(self.stp),
            **{name: found[name].tolist() for name in ("state", "runs", "failed")},
        }

    def document(self) -> dict[str, Any]:
        """Return the same with the arrays themselves, NaN for no value: a matrix of thousands is not listed twice."""
        return {
            "dataset": self.dataset,
            "gpu": self.gpu,
            "mechanism": self.mechanism,
            "workloads": list(self.workloads),
            "slowdown": self.slowdown,
            "state": self.state,
            "stp": self.stp,
            "runs": self.runs,
            "failed": self.failed,
            "flagged": sorted(self.flagged),
            "n": self.n,
            "sources": self.sources,
            "simulated": self.simulated,
            "notes": list(self.notes),
            "excluded": [dict(one) for one in self.excluded],
        }

    def table(self) -> pd.DataFrame:
        """Return the matrix in long form: workload, beside, slowdown, low, high, state, runs, failed, metrics."""
        size = len(self.workloads)
        names = np.array(self.workloads, dtype=object)
        columns: Mapping[str, npt.NDArray[Any]] = {
            "workload": np.repeat(names, size),
            "beside": np.tile(names, size),
            "slowdown": self.slowdown.ravel(),
            "low": self.low.ravel(),
            "high": self.high.ravel(),
            "state": self.state.ravel(),
            "runs": self.runs.ravel(),
            "failed": self.failed.ravel(),
            **{name: getattr(self, name).ravel() for name in METRICS if name != "p99"},
        }
        return pd.DataFrame(columns)

    def reordered(self, order: npt.ArrayLike) -> SlowdownMatrix:
        """Return the matrix with its workloads in another order, given as positions; leaving some out drops them."""
        at = np.asarray(order, dtype=int)
        square = np.ix_(at, at)
        fields = {name: getattr(self, name)[square] for name in FIELDS}
        workloads = tuple(self.workloads[i] for i in at)
        families = tuple(self.families[i] for i in at)
        return SlowdownMatrix(**{**self.__dict__, **fields, "workloads": workloads, "families": families})


def slowdown_matrix(
    database: Database,
    dataset: str,
    gpu: str | None = None,
    mechanism: str | None = None,
    *,
    include_flagged: bool = True,
) -> SlowdownMatrix:
    """Build the matrix from the runs of two.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set; never pooled with another.
    gpu, mechanism : str, optional
        See `analysis.interference.choose.choose`.
    include_flagged : bool
        Whether values of flagged cells are given; their state is ``flagged`` either way. False also drops the values of
        others beside a flagged workload, as evaluations do.

    Returns
    -------
    SlowdownMatrix
        A run in which one of the two did not run gives no slowdown to the other, which was alone. Where a pair ran both
        with and without client caps (thread percentage, memory cap), the runs without count.

    Raises
    ------
    NotFoundError, UsageError
        As `choose`.
    """
    choice = choose(database, dataset, gpu, mechanism)
    here = Filter(datasets=(dataset,), gpus=(choice.gpu,))
    place = (dataset, choice.gpu, choice.mechanism)
    notes = list(choice.notes)
    capped = pairs.any_capped(database, *place)
    if capped and (said := _about_caps(*pairs.capped_runs(database, *place))):
        notes.append(said)
    merged = pairs.cells(database, *place, capped=capped)
    solos = coruns.solos(database, here)
    names = sources.workload_names(database, dataset)
    there = names.loc[np.unique(merged.loc[merged["known"], "workload_id"])]
    known = pd.concat([solos.loc[solos["value"].notna(), ["workload", "family"]], there[["workload", "family"]]])
    known = known.drop_duplicates("workload").sort_values("workload", kind="stable")
    workloads = tuple(known["workload"].astype(str))
    families = tuple(known["family"].fillna("").astype(str))
    position = {name: i for i, name in enumerate(workloads)}
    places = names["workload"].map(position)
    at = (places.reindex(merged["workload_id"]).to_numpy(float), places.reindex(merged["partner_id"]).to_numpy(float))
    inside = np.isfinite(at[0]) & np.isfinite(at[1])
    only: list[int] | None = None
    if not inside.all():
        lost = names.loc[np.unique(merged.loc[~inside, ["workload_id", "partner_id"]]), "workload"]
        absent = sorted(set(lost) - set(position))
        notes.append(f"Not shown, as they have neither a solo measurement nor a slowdown: {named(absent)}.")
        merged, only = merged[inside], [int(number) for number in places.dropna().index]
    rows, columns = at[0][inside].astype(int), at[1][inside].astype(int)
    behind = pairs.cell_sources(database, *place, only, capped=capped)
    flagged = frozenset(w for _, w in flagged_workloads(database, dataset, choice.gpu) if w in position)
    size = len(workloads)

    def spread(column: str, nothing: float = np.nan) -> Array:
        values: Array = np.full((size, size), nothing)
        values[rows, columns] = merged[column].to_numpy(float)
        return values

    state = np.full((size, size), NOT_MEASURED, dtype="<U12")
    bad = np.array([name in flagged for name in workloads], dtype=bool)
    doubtful = merged["doubtful"].to_numpy(bool) | bad[rows] | merged["slowdown"].isna().to_numpy()
    found = np.where(doubtful, FLAGGED, MEASURED)
    found = np.where(merged["left_out"], NOT_MEASURED, found)
    ran, failed = merged["ran"].to_numpy(int), merged["failed"].to_numpy(int)
    state[rows, columns] = np.where(ran == 0, DID_NOT_RUN, found)
    matrices = {name: spread(name) for name in VALUES}
    if not include_flagged:
        hide = state == FLAGGED
        hide |= bad[:, None] | bad[None, :]
        for values in matrices.values():
            values[hide] = np.nan
        state[(state == MEASURED) & hide] = FLAGGED
    half = rows <= columns
    failures = int(((failed > 0) & (ran > 0) & half).sum())
    if failures:
        notes.append(
            f"{counted(failures, 'pair')} ran in some runs and failed in others: the number is of those that ran, and "
            "the cell is marked."
        )
    return SlowdownMatrix(
        dataset, choice.gpu, choice.mechanism, workloads, families, state=state, flagged=flagged,
        runs=spread("ran", 0).astype(np.int64), failed=spread("failed", 0).astype(np.int64),
        capped=spread("capped", 0).astype(np.bool_),
        n=int((ran + failed)[half].sum()), sources=len(behind),
        simulated=bool(behind["simulated"].any() or solos["simulated"].any()), notes=tuple(notes), **matrices,
        excluded=tuple(
            {"rule": str(rule), "scope": str(scope), "count": int(count)}
            for rule, scope, count in exclusions.left_out(database, here, "coruns").itertuples(index=False)
        ),
    )  # fmt: skip


def _plain(values: Array) -> list[list[float | None]]:
    listed: list[list[float | None]] = np.where(np.isnan(values), np.array(None), values.astype(object)).tolist()
    return listed
