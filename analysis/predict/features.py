"""The one frame that every predictor sees: built from solo profiles, for pairs and for larger sets alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError
from analysis.interference import checks
from analysis.predict import profiles as solo_profiles
from analysis.predict import terms
from analysis.predict.quantities import QUANTITIES
from analysis.predict.schema import IDENTITY, FeatureSchema, Floats
from analysis.reference import gpus as reference
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

#: Flags of a member that make its slowdown no measurement.
NO_TARGET_FLAGS = ("hard_coded", "not_measured", "partial")

_QUANTITY_NAMES = [quantity.name for quantity in QUANTITIES]


@dataclass(frozen=True)
class TrainingFrame:
    """Members of measured runs with everything a predictor may know of them, and their targets.

    Attributes
    ----------
    dataset : str
        The data set.
    X : pd.DataFrame
        One row a member: the identity columns and every column of the schema.
    y : ndarray, shape (rows,)
        ln S.
    rows : pd.DataFrame
        run_id, slot, workload, others (tuple), family, families (frozenset of all members' families), gpu, mechanism,
        k, pair (the unordered set as one text), slowdown; the same order as X.
    schema : FeatureSchema
        Documentation of the numeric columns.
    profiles : pd.DataFrame
        The solo profiles, index (gpu, workload).
    simulated : bool
        Whether a simulator made the numbers.
    left_out : mapping of str to int
        Members that are not in the frame, counted by reason.
    flagged : frozenset of (gpu, workload)
        Workloads whose runs were left out.
    """

    dataset: str
    X: pd.DataFrame
    y: Floats
    rows: pd.DataFrame
    schema: FeatureSchema
    profiles: pd.DataFrame
    simulated: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    flagged: frozenset[tuple[str, str]] = frozenset()

    def __len__(self) -> int:
        return len(self.y)

    def take(self, which: npt.NDArray[Any]) -> TrainingFrame:
        """Return some rows, by number or by mask."""
        return replace(
            self,
            X=self.X.iloc[which].reset_index(drop=True),
            y=self.y[which],
            rows=self.rows.iloc[which].reset_index(drop=True),
        )

    @property
    def runs(self) -> int:
        """Number of runs behind the rows."""
        return int(self.rows["run_id"].nunique())

    @property
    def workloads(self) -> list[str]:
        """Names of the workloads that occur, as target or as co-runner."""
        beside = {name for others in self.rows["others"] for name in others}
        return sorted(beside | set(self.rows["workload"]))

    def data_hash(self) -> str:
        """Return a hash of targets and features: two frames with the same hash train the same model."""
        digest = hashlib.sha256()
        keys = self.rows[["gpu", "mechanism", "workload", "k", "pair"]].astype(str)
        digest.update(pd.util.hash_pandas_object(keys, index=False).to_numpy().tobytes())
        digest.update(np.ascontiguousarray(self.y).tobytes())
        digest.update(np.ascontiguousarray(self.X[self.schema.names].to_numpy(dtype=np.float64)).tobytes())
        return digest.hexdigest()


def build(
    database: Database,
    dataset: str,
    gpus: Iterable[str] | None = None,
    mechanisms: Iterable[str] | None = None,
    *,
    include_flagged: bool = False,
) -> TrainingFrame:
    """Build the frame of a data set's measured members.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set; data sets are never pooled.
    gpus, mechanisms : iterable of str, optional
        Canonical names to keep; all by default.
    include_flagged : bool, default False
        Keep runs with workloads that the data checks flag.

    Returns
    -------
    TrainingFrame
        Members with a target. Runs that did not run, or not completely, are counted in `left_out`.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    NotEnoughDataError
        If no member has a slowdown.
    """
    sources.require_dataset(database, dataset)
    chosen = Filter(datasets=(dataset,), gpus=tuple(gpus or ()), mechanisms=tuple(mechanisms or ()))
    members = coruns.members(database, chosen)
    left_out: dict[str, int] = {}
    members = _drop(members, members["run_outcome"] != "ran", "run did not finish", left_out)
    flagged = frozenset() if include_flagged else flagged_workloads(database, dataset)
    if flagged:
        bad = pd.Series(list(zip(members["gpu"], members["workload"], strict=True)), index=members.index).isin(flagged)
        members = _drop(members, bad.groupby(members["run_id"]).transform("any"), "flagged workload", left_out)
    if members.empty:
        raise NotEnoughDataError(
            f"data set {dataset} has no co-run to learn from{_chosen(chosen)}", "Import measured co-runs first."
        )
    table = solo_profiles.collect(database, dataset)
    frame = _frame(dataset, members, table)
    flags = members["flags"].map(lambda found: bool(set(NO_TARGET_FLAGS) & set(found if found is not None else ())))
    target = members["slowdown"].to_numpy(dtype=np.float64)
    good = np.isfinite(target) & (target > 0) & (include_flagged | ~flags.to_numpy(dtype=bool))
    if not good.all():
        left_out["no target"] = int((~good).sum())
    if not good.any():
        raise NotEnoughDataError(
            f"no member of data set {dataset} has a slowdown{_chosen(chosen)}",
            "Import solo measurements beside the co-runs.",
        )
    frame = replace(
        frame,
        left_out=left_out,
        flagged=flagged,
        simulated=bool(members["simulated"].any()),
    )
    return frame.take(np.flatnonzero(good))


def for_jobs(
    database: Database, dataset: str, jobs: Sequence[str], gpu: str, mechanism: str = "CUDA MPS"
) -> pd.DataFrame:
    """Build the rows of one set of jobs, one row a job, none of it measured together.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set that holds the jobs' solo profiles.
    jobs : sequence of str
        Workload names; a name may stand twice.
    gpu, mechanism : str
        Where and how they would share.

    Returns
    -------
    pd.DataFrame
        The identity columns and every column of the schema.

    Raises
    ------
    NotFoundError
        If nothing is known of a job.
    """
    table = solo_profiles.collect(database, dataset)
    known = set(table.index.get_level_values("workload")) | set(
        sources.workloads(database, Filter(datasets=(dataset,)))["workload"].astype(str)
    )
    for job in jobs:
        if job not in known:
            raise NotFoundError(
                f"there is no workload {job!r} in data set {dataset}", "Import its profile, or choose one of the list."
            )
    return rows_for_sets(table, [tuple(jobs)], gpu, mechanism)


def rows_for_sets(
    table: pd.DataFrame,
    sets: Sequence[Sequence[str]],
    gpu: str,
    mechanism: str = "CUDA MPS",
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Build the rows of many sets of jobs from a table of profiles, set by set and job by job.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles as `profiles.collect` returns them.
    sets : sequence of sequences of str
        Names of the jobs of each set.
    gpu, mechanism : str
        Where and how they share.
    columns : sequence of str, optional
        Numeric columns to compute; all by default.

    Returns
    -------
    pd.DataFrame
        Identity columns and numeric columns.
    """
    members = pd.DataFrame(
        [
            {"run_id": run, "slot": slot, "workload": job, "gpu": gpu, "mechanism": mechanism,
             "thread_percentage": np.nan, "slowdown": np.nan}
            for run, jobs in enumerate(sets) for slot, job in enumerate(jobs)
        ]
    )  # fmt: skip
    return _frame("", members, table, columns).X


def flagged_workloads(database: Database, dataset: str) -> frozenset[tuple[str, str]]:
    """Return the (gpu, workload) pairs whose solo baseline the data checks doubt."""
    return frozenset(checks.flagged_workloads(database, dataset))


def _chosen(chosen: Filter) -> str:
    words = [*chosen.gpus, *chosen.mechanisms]
    return f" on {', '.join(words)}" if words else ""


def _drop(members: pd.DataFrame, bad: pd.Series, reason: str, left_out: dict[str, int]) -> pd.DataFrame:
    if bad.any():
        left_out[reason] = int(bad.sum())
    return members[~bad.to_numpy(dtype=bool)]


def _frame(
    dataset: str, members: pd.DataFrame, table: pd.DataFrame, columns: Sequence[str] | None = None
) -> TrainingFrame:
    """Number the profiles and runs, compute the columns, and keep who is who beside them."""
    members = members.sort_values(["run_id", "slot"], kind="stable").reset_index(drop=True)
    keys = pd.MultiIndex.from_frame(members[["gpu", "workload"]].astype(str), names=["gpu", "workload"])
    table = table.reindex(table.index.union(keys.unique()))
    rows = _rows(members, keys, table)
    X = terms.compute(rows, columns)
    names = table.index.get_level_values("workload").to_numpy(dtype=object)
    family = _families(table)
    others = [tuple(sorted(names[i] for i in line if i >= 0)) for line in rows.others]
    identity = pd.DataFrame(
        {
            "workload": members["workload"].astype(object).to_numpy(),
            "others": pd.Series(others, dtype=object),
            "family": family[rows.own],
            "gpu": members["gpu"].astype(object).to_numpy(),
            "mechanism": members["mechanism"].astype(object).to_numpy(),
        }
    )
    about = pd.DataFrame(
        {
            "run_id": members["run_id"].to_numpy(),
            "slot": members["slot"].to_numpy(),
            **{name: identity[name] for name in IDENTITY},
            "families": pd.Series(
                [
                    frozenset({family[own], *(family[i] for i in line if i >= 0)})
                    for own, line in zip(rows.own, rows.others, strict=True)
                ],
                dtype=object,
            ),
            "k": rows.count.astype(int),
            "pair": [" + ".join(sorted((own, *line))) for own, line in zip(identity["workload"], others, strict=True)],
            "slowdown": members["slowdown"].to_numpy(dtype=np.float64),
        }
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(about["slowdown"].to_numpy(dtype=np.float64))
    return TrainingFrame(dataset, pd.concat([identity, X], axis=1), y, about, terms.schema(), table)


def _families(table: pd.DataFrame) -> np.ndarray:
    """Return each profile's family; a workload that names none is a family of its own."""
    names = pd.Series(table.index.get_level_values("workload"), dtype=object)
    if "family" not in table:
        return names.to_numpy(dtype=object)
    by_name = table["family"].groupby(level="workload").first()
    return names.map(by_name).where(lambda found: found.notna(), names).to_numpy(dtype=object)


def _rows(members: pd.DataFrame, keys: pd.MultiIndex, table: pd.DataFrame) -> terms.Rows:
    own = table.index.get_indexer(keys).astype(np.int64)
    run = pd.factorize(members["run_id"])[0]
    slot = members.groupby("run_id", sort=False).cumcount().to_numpy()
    size = int(slot.max()) + 1 if len(slot) else 1
    grid = np.full((int(run.max()) + 1 if len(run) else 0, size), -1, dtype=np.int64)
    grid[run, slot] = own
    caps = np.full(grid.shape, np.nan)
    percentage = members["thread_percentage"].to_numpy(dtype=np.float64)
    caps[run, slot] = percentage
    others = grid[run]
    others[np.arange(len(others)), slot] = -1
    others = np.sort(others, axis=1)[:, ::-1][:, : max(size - 1, 1)]
    total = np.where(np.isnan(caps), 0.0, caps)[run].sum(axis=1) - np.nan_to_num(percentage)
    any_cap = ~np.isnan(caps).all(axis=1)[run]
    gpus = table.index.get_level_values("gpu").to_numpy(dtype=object)
    return terms.Rows(
        values={name: table[name].to_numpy(dtype=np.float64) for name in _QUANTITY_NAMES},
        own=own,
        others=others,
        mechanism=members["mechanism"].astype(object).to_numpy(),
        own_percentage=percentage,
        others_percentage=np.where(any_cap, total, np.nan),
        gpu=gpu_descriptors(gpus)[own],
    )


def gpu_descriptors(gpus: np.ndarray) -> Floats:
    """Return the descriptors of GPUs by name, shape (gpus, descriptors); NaN for a GPU that the reference lacks."""
    known = reference.load()
    with np.errstate(divide="ignore"):
        described = pd.DataFrame(
            {
                "gpu_sms": np.log(known["sm_count"]),
                "gpu_memory": np.log(known["memory_mib"]),
                "gpu_bandwidth": np.log(known["memory_gbps"]),
                # Two floating-point operations a lane and cycle.
                "gpu_fp32": np.log(known["sm_count"] * known["fp32_lanes_per_sm"] * known["boost_clock_mhz"] * 2e-3),
                "gpu_l2": np.log(known["l2_mib"]),
                "gpu_generation": pd.to_numeric(known["cc"], errors="coerce"),
            }
        )
    out: Floats = described[[name for name, _, _ in terms.GPU_DESCRIPTORS]].reindex(gpus).to_numpy(dtype=np.float64)
    return out
