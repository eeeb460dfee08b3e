"""What jobs pay beside one another on each kind of GPU: the truth of a replay, or what a policy believes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.matrix import DID_NOT_RUN, NOT_MEASURED, SlowdownMatrix, slowdown_matrix
from analysis.predict.evaluate.selection import resolve_gpus
from analysis.predict.frame import mechanism as onemechanism
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.sources import require_dataset

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """Speeds alone and slowdowns in pairs, for kinds of GPUs and workloads that are known by their positions.

    Attributes
    ----------
    workloads, gpus : tuple of str
        Names, in the order of the arrays.
    speed : ndarray of float, GPUs x workloads
        Progress alone on the GPU relative to the reference GPU; NaN where the workload was not measured alone.
    slowdown : ndarray of float, GPUs x workloads x workloads
        S of the first workload beside the second; NaN where the two may not share: they did not run, or nobody
        measured it.
    within : ndarray of float or None
        Probability (0 to 1) that both of a pair stay within a limit, in the same shape; only beliefs have it.
    dataset, mechanism, reference : str
        Where it is from, and the GPU whose speed is 1.
    steps_per_s : mapping of str to float
        Throughput alone on the reference GPU in steps a second, where that is what was measured.
    simulated : bool
        Whether any of it was simulated.
    notes : tuple of str
        What a reader of the figures must know.
    """

    workloads: tuple[str, ...]
    gpus: tuple[str, ...]
    speed: Array
    slowdown: Array
    within: Array | None = None
    dataset: str = ""
    mechanism: str = ""
    reference: str = ""
    steps_per_s: Mapping[str, float] = field(default_factory=dict)
    simulated: bool = False
    notes: tuple[str, ...] = ()

    def slowdowns(self, gpu: int, members: Sequence[int]) -> tuple[float, ...]:
        """Return S of every member of a set; a set of more than two is the product of its pairs, NaN where one is."""
        if len(members) == 2:
            one, other = members
            return float(self.slowdown[gpu, one, other]), float(self.slowdown[gpu, other, one])
        pairs = self.slowdown[gpu][np.ix_(members, members)].copy()
        np.fill_diagonal(pairs, 1.0)
        return tuple(float(value) for value in pairs.prod(axis=1))

    def stp(self, gpu: int, members: Sequence[int]) -> float:
        """Return the sum of 1/S of a set; NaN where a pair of it has no slowdown."""
        return float(sum(1.0 / value for value in self.slowdowns(gpu, members)))

    def position(self, workload: str) -> int:
        """Return where a workload stands.

        Raises
        ------
        NotFoundError
            If it is not among them.
        """
        try:
            return self.workloads.index(workload)
        except ValueError:
            raise NotFoundError(
                f"data set {self.dataset} knows no workload {workload!r}",
                f"Name one of its {len(self.workloads)} workloads in the trace, such as {self.workloads[0]!r}.",
            ) from None

    def usable(self, counts: Mapping[str, int]) -> tuple[str, ...]:
        """Return the workloads that can run on at least one GPU of a cluster."""
        kinds = [self.gpus.index(name) for name, count in counts.items() if count]
        there = np.flatnonzero(~np.isnan(self.speed[kinds]).all(axis=0))
        return tuple(self.workloads[i] for i in there)

    def exclusive_capacity(self, counts: Mapping[str, int], mean_length_s: float) -> float:
        """Return the jobs an hour that a cluster can carry with one job a GPU, every workload equally often.

        Parameters
        ----------
        counts : mapping of str to int
            GPUs of each kind.
        mean_length_s : float
            Mean length of a job alone on the reference GPU.
        """
        found = 0.0
        for name, count in counts.items():
            longer = float(np.nanmean(1.0 / self.speed[self.gpus.index(name)]))
            found += count * 3600.0 / (mean_length_s * longer)
        return found


def measured(
    database: Database, dataset: str, gpus: Sequence[str] = (), mechanism: str | None = None,
    reference: str | None = None,
) -> PairTable:  # fmt: skip
    """Read the truth of a replay: every measured pair of a data set.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.
    gpus : sequence of str
        Kinds of GPUs, any way of writing them; all that co-runs were measured on by default.
    mechanism : str, optional
        How jobs share; the one with the most runs by default.
    reference : str, optional
        GPU that job lengths are meant for; by default the one on which workloads are fastest.

    Returns
    -------
    PairTable
        Workloads that were measured alone on at least one of the GPUs.

    Raises
    ------
    NotFoundError, UsageError
        If there is no such data set, GPU or mechanism.
    NotEnoughDataError
        If no workload was measured alone, or no pair together.
    """
    require_dataset(database, dataset)
    available = sorted(set(coruns.gpus_and_mechanisms(database, dataset)["gpu"].astype(str)))
    if not available:
        raise NotEnoughDataError(
            f"data set {dataset} has no co-runs, so nothing says what sharing costs", "Import co-runs of pairs first."
        )
    kinds = list(dict.fromkeys(name for word in gpus for name in resolve_gpus(word, available, dataset))) or available
    chosen, notes = onemechanism.choose(database, dataset, kinds, mechanism)
    how = str(chosen[0]) if chosen else onemechanism.most_measured(database, dataset, kinds)[0][0]
    matrices = [slowdown_matrix(database, dataset, kind, how) for kind in kinds]
    solos, steps = _solos(database, dataset, kinds)
    names = sorted({name for one in matrices for name in one.workloads} | set(solos.columns.astype(str)))
    alone = solos.reindex(columns=names).to_numpy(dtype=np.float64)
    if len(kinds) == 1 and np.isnan(alone).any():
        # With one kind of GPU nothing depends on the speed alone; a job that was only measured as normalised counts.
        alone = np.ones_like(alone)
    elif np.isnan(alone).all():
        raise NotEnoughDataError(
            f"no workload of {dataset} was measured alone on {', '.join(kinds)}", "Name one GPU with --gpu G=N."
        )
    base = _reference(kinds, alone, reference, available, dataset)
    known: list[bool] = (~np.isnan(alone[base])).tolist()
    lost = [name for name, there in zip(names, known, strict=True) if not there]
    if lost:
        notes = [*notes, f"Without a time alone on {kinds[base]}, so left out: {', '.join(lost)}."]
    at = np.flatnonzero(known)
    names = [names[i] for i in at]
    speed = alone[:, at] / alone[base, at]
    slowdown = np.stack([_spread(one, names) for one in matrices])
    slowdown = np.where(np.isnan(np.swapaxes(slowdown, 1, 2)), np.nan, slowdown)
    if np.isnan(slowdown).all():
        raise NotEnoughDataError(f"{dataset} has no measured pair under {how}", "Import co-runs of pairs first.")
    return PairTable(
        tuple(names),
        tuple(kinds),
        speed,
        slowdown,
        dataset=dataset,
        mechanism=how,
        reference=kinds[base],
        steps_per_s={name: float(alone[base, i]) for i, name in zip(at, names, strict=True) if name in steps},
        simulated=any(one.simulated for one in matrices),
        notes=(*notes, *_gaps(matrices)),
    )


def _reference(kinds: Sequence[str], alone: Array, wanted: str | None, available: Sequence[str], dataset: str) -> int:
    if wanted is not None:
        name = resolve_gpus(wanted, available, dataset)[0]
        if name not in kinds:
            raise UsageError(f"{name} is the reference of job lengths and not in the cluster", "Add it to the cluster.")
        return list(kinds).index(name)
    with np.errstate(invalid="ignore"):
        best = alone / np.nanmax(alone, axis=0, keepdims=True)
    return int(np.argmax(np.nansum(best, axis=1)))


def _solos(database: Database, dataset: str, kinds: Sequence[str]) -> tuple[pd.DataFrame, frozenset[str]]:
    """Return how fast each workload is alone, GPUs x workloads, and those whose speed is in steps a second.

    A speed is a throughput, or one over a time.
    """
    table = coruns.solos(database, Filter(datasets=(dataset,), gpus=tuple(kinds)))
    table = table[table["value"] > 0]
    table = table.assign(rate=np.where(table["measure"] == "throughput", table["value"], 1.0 / table["value"]))
    # One unit a workload: the one measured on the most GPUs, so that speeds can be compared across them.
    units = table.groupby(["workload", "measure", "unit"], dropna=False)["gpu"].nunique().sort_values(ascending=False)
    unit = units.reset_index().drop_duplicates("workload")[["workload", "measure", "unit"]]
    table = table.merge(unit, on=["workload", "measure", "unit"])
    steps = table.loc[(table["measure"] == "throughput") & (table["unit"] == "it/s"), "workload"]
    wide = table.pivot_table(index="gpu", columns="workload", values="rate", aggfunc="median")
    return wide.reindex(index=list(kinds)), frozenset(steps.astype(str))


def _spread(matrix: SlowdownMatrix, names: Sequence[str]) -> Array:
    frame = pd.DataFrame(matrix.slowdown, index=list(matrix.workloads), columns=list(matrix.workloads))
    return frame.reindex(index=list(names), columns=list(names)).to_numpy(dtype=np.float64)


def _gaps(matrices: Sequence[SlowdownMatrix]) -> list[str]:
    """Say which pairs no policy may choose, and which figures are doubted."""
    found = []
    for one in matrices:
        upper = np.triu(np.ones_like(one.runs, dtype=bool))
        died = int(((one.state == DID_NOT_RUN) & upper).sum())
        never = int(((one.state == NOT_MEASURED) & upper).sum())
        if died or never:
            found.append(
                f"{one.gpu}: of {int(upper.sum()):,} pairs {died:,} did not run and {never:,} were never measured; "
                "no policy may choose them."
            )
        if one.flagged:
            found.append(f"{one.gpu}: the baselines of {', '.join(sorted(one.flagged))} are doubted by the checks.")
    return found
