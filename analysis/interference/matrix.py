"""The slowdown matrix of one data set, GPU and mechanism: who is slowed, by whom, and which cells to doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotFoundError
from analysis.interference.choose import choose
from analysis.interference.finding import counted, named
from analysis.interference.rules.baselines import flagged_workloads
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

MEASURED, NOT_MEASURED, DID_NOT_RUN, FLAGGED = "measured", "not_measured", "did_not_run", "flagged"

#: Marks of a member whose slowdown is no measurement of it.
DOUBTFUL_FLAGS = frozenset({"clipped", "hard_coded"})

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
    stp, antt, fairness, p99 : ndarray of float
        Of the pair; the median over its runs. p99 is the row's p99 inflation.
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
    stp: Array
    antt: Array
    fairness: Array
    p99: Array
    flagged: frozenset[str]
    n: int
    sources: int
    simulated: bool
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the matrix with plain lists, None for no value, as the command line prints it."""
        return {
            "dataset": self.dataset,
            "gpu": self.gpu,
            "mechanism": self.mechanism,
            "workloads": list(self.workloads),
            "slowdown": _plain(self.slowdown),
            "state": self.state.tolist(),
            "stp": _plain(self.stp),
            "runs": self.runs.tolist(),
            "flagged": sorted(self.flagged),
            "n": self.n,
            "sources": self.sources,
            "simulated": self.simulated,
            "notes": list(self.notes),
        }

    def table(self) -> pd.DataFrame:
        """Return the matrix in long form: workload, beside, slowdown, low, high, state, runs, stp, antt, fairness."""
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
            "stp": self.stp.ravel(),
            "antt": self.antt.ravel(),
            "fairness": self.fairness.ravel(),
        }
        return pd.DataFrame(columns)

    def reordered(self, order: npt.ArrayLike) -> SlowdownMatrix:
        """Return the matrix with its workloads in another order, given as positions; leaving some out drops them."""
        at = np.asarray(order, dtype=int)
        square = np.ix_(at, at)
        names = ("slowdown", "low", "high", "state", "runs", "stp", "antt", "fairness", "p99")
        fields = {name: getattr(self, name)[square] for name in names}
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
    pairs = coruns.pairs(database, here.with_(mechanisms=(choice.mechanism,)))
    pairs, capped = _without_caps(pairs)
    notes = list(choice.notes)
    if capped:
        notes.append(capped)
    solos = coruns.solos(database, here)
    known = pd.concat(
        [
            solos.loc[solos["value"].notna(), ["workload", "family"]],
            pairs.loc[pairs["slowdown"].notna(), ["workload", "family"]],
        ]
    )
    known = known.drop_duplicates("workload").sort_values("workload", kind="stable")
    workloads = tuple(known["workload"].astype(str))
    families = tuple(known["family"].fillna("").astype(str))
    position = {name: i for i, name in enumerate(workloads)}
    inside = pairs["workload"].isin(position) & pairs["partner"].isin(position)
    if not inside.all():
        lost = sorted({*pairs["workload"], *pairs["partner"]} - set(position))
        notes.append(f"Not shown, as they have neither a solo measurement nor a slowdown: {named(lost)}.")
    pairs = pairs[inside].copy()
    flagged = frozenset(w for _, w in flagged_workloads(database, dataset, choice.gpu) if w in position)
    cells = _cells(pairs)
    size = len(workloads)
    at = (cells["workload"].map(position).to_numpy(int), cells["partner"].map(position).to_numpy(int))

    def spread(column: str) -> Array:
        values: Array = np.full((size, size), np.nan)
        values[at] = cells[column].to_numpy(float)
        return values

    state = np.full((size, size), NOT_MEASURED, dtype="<U12")
    doubtful = cells["doubtful"] | cells["workload"].isin(flagged) | cells["slowdown"].isna()
    state[at] = np.where(cells["ran"] == 0, DID_NOT_RUN, np.where(doubtful, FLAGGED, MEASURED))
    matrices = {name: spread(name) for name in ("slowdown", "low", "high", "stp", "antt", "fairness", "p99")}
    if not include_flagged:
        hide = state == FLAGGED
        bad = np.array([name in flagged for name in workloads], dtype=bool)
        hide |= bad[:, None] | bad[None, :]
        for values in matrices.values():
            values[hide] = np.nan
        state[(state == MEASURED) & hide] = FLAGGED
    runs = np.nan_to_num(spread("ran")).astype(np.int64)
    return SlowdownMatrix(
        dataset, choice.gpu, choice.mechanism, workloads, families, state=state, runs=runs, flagged=flagged,
        n=int(pairs["run_id"].nunique()), sources=int(pairs["source_id"].nunique()),
        simulated=bool(pairs["simulated"].any() or solos["simulated"].any()), notes=tuple(notes), **matrices,
    )  # fmt: skip


def cell(
    database: Database, dataset: str, gpu: str | None, mechanism: str | None, victim: str, aggressor: str
) -> pd.DataFrame:
    """Return both members of every run behind one cell.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu, mechanism
        As for `slowdown_matrix`.
    victim, aggressor : str
        The row and the column.

    Returns
    -------
    pd.DataFrame
        The columns of `analysis.store.queries.coruns.pairs` and role (``slowed`` or ``beside it``), stp, antt and
        fairness of the run, capped (whether client caps were set); ordered by run and slot. Empty where the pair was
        not measured.

    Raises
    ------
    NotFoundError
        If a workload is not in the data set.
    """
    choice = choose(database, dataset, gpu, mechanism)
    known = set(sources.workloads(database, Filter(datasets=(dataset,)))["workload"])
    for name in (victim, aggressor):
        if name not in known:
            raise NotFoundError(f"data set {dataset!r} has no workload {name!r}", "Names are written as in its files.")
    pairs = coruns.pairs(database, Filter((dataset,), (choice.gpu,), (choice.mechanism,)))
    own = (pairs["workload"] == victim) & (pairs["partner"] == aggressor)
    other = (pairs["workload"] == aggressor) & (pairs["partner"] == victim)
    chosen = _metrics(pairs[own | other].copy())
    chosen["role"] = np.where(chosen["workload"] == victim, "slowed", "beside it")
    chosen["capped"] = _capped(chosen)
    return chosen.sort_values(["run_id", "slot"], kind="stable").reset_index(drop=True)


def _capped(pairs: pd.DataFrame) -> pd.Series[bool]:
    return (pairs["thread_percentage"].astype(float) < 100) | pairs["memory_cap_mib"].notna()


def _without_caps(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """Prefer, pair by pair, the runs in which no client was capped; say how many capped ones are left or left out."""
    capped = _capped(pairs).groupby(pairs["run_id"]).transform("any").astype(bool)
    if not capped.any():
        return pairs, None
    ends = pd.Series([frozenset(pair) for pair in zip(pairs["workload"], pairs["partner"], strict=True)], pairs.index)
    free = (~capped).groupby(ends).transform("any")
    kept = pairs[~capped | ~free]
    left_out = int(pairs.loc[capped & free, "run_id"].nunique())
    only = int(pairs.loc[capped & ~free, "run_id"].nunique())
    parts = [
        f"Left out: {counted(left_out, 'run')} with capped clients, whose pairs also ran without caps."
        if left_out
        else "",
        f"Shown: {counted(only, 'run')} with capped clients (thread percentage or memory); no run without caps exists."
        if only
        else "",
    ]
    return kept, " ".join(part for part in parts if part)


def _metrics(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the metrics of each run of two; NaN where one of them did not run or has no slowdown."""
    ran = (pairs["outcome"] == "ran") & (pairs["partner_outcome"] == "ran")
    own, other = pairs["slowdown"].where(ran), pairs["partner_slowdown"].where(ran)
    pairs["both_ran"] = ran
    pairs["own"] = own
    pairs["stp"] = 1 / own + 1 / other
    pairs["antt"] = (own + other) / 2
    pairs["fairness"] = np.minimum(own, other) / np.maximum(own, other)
    pairs["p99"] = (pairs["p99_corun_ms"] / pairs["p99_solo_ms"]).where(ran)
    return pairs


def _cells(pairs: pd.DataFrame) -> pd.DataFrame:
    """Bring the runs to one row a directed pair: first both members of a self pair to their mean, then repeats."""
    pairs = _metrics(pairs)
    pairs["doubtful"] = [bool(DOUBTFUL_FLAGS.intersection(flags)) for flags in pairs["flags"]]
    key = ["workload", "partner"]
    runs = pairs.groupby([*key, "run_id"], as_index=False).agg(
        own=("own", "mean"), stp=("stp", "mean"), antt=("antt", "mean"), fairness=("fairness", "mean"),
        p99=("p99", "mean"), ran=("both_ran", "all"), doubtful=("doubtful", "any"),
    )  # fmt: skip
    cells = runs.groupby(key, as_index=False).agg(
        slowdown=("own", "median"), low=("own", "min"), high=("own", "max"), stp=("stp", "median"),
        antt=("antt", "median"), fairness=("fairness", "median"), p99=("p99", "median"), ran=("ran", "sum"),
    )  # fmt: skip
    sound = runs[runs["ran"]].groupby(key)["doubtful"].all().rename("doubtful").reset_index()
    merged = cells.merge(sound, on=key, how="left")
    merged["doubtful"] = merged["doubtful"].fillna(False).astype(bool)
    return merged


def _plain(values: Array) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in values]
