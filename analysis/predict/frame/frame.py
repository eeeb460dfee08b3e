"""The frame itself: columns, targets, and who is who in every row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.predict.frame import terms, whitebox_sets
from analysis.predict.frame.quantities import QUANTITIES
from analysis.predict.frame.schema import IDENTITY, FeatureSchema, Floats
from analysis.reference import gpus as reference
from analysis.reference.mechanism_names import MPS

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
    own_model : bool
        Whether that simulator is StallScope's own, whose model the white box shares.
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
    own_model: bool = False
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


def assemble(
    dataset: str, members: pd.DataFrame, table: pd.DataFrame, columns: Sequence[str] | None = None
) -> TrainingFrame:
    """Number the profiles and runs, compute the columns, and keep who is who beside them."""
    members = members.sort_values(["run_id", "slot"], kind="stable").reset_index(drop=True)
    keys = pd.MultiIndex.from_frame(members[["gpu", "workload"]].astype(str), names=["gpu", "workload"])
    table = table.reindex(table.index.union(keys.unique()))
    rows = _rows(members, keys, table)
    X = terms.compute(rows, columns)
    names = table.index.get_level_values("workload").to_numpy(dtype=object)
    family, model = _attribute(table, "family"), _attribute(table, "model")
    ordered = [sorted((names[i], model[i]) for i in line if i >= 0) for line in rows.others]
    others = [tuple(name for name, _ in line) for line in ordered]
    identity = pd.DataFrame(
        {
            "workload": members["workload"].astype(object).to_numpy(),
            "others": pd.Series(others, dtype=object),
            "model": model[rows.own],
            "models": pd.Series([tuple(of for _, of in line) for line in ordered], dtype=object),
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


def all_pairs(
    table: pd.DataFrame,
    gpu: str,
    mechanism: str,
    columns: Sequence[str] | None = None,
    start: int = 0,
    stop: int | None = None,
) -> pd.DataFrame:
    """Build the rows of all ordered pairs of a table's workloads on a GPU, a workload beside itself included.

    Parameters
    ----------
    table : pd.DataFrame
        Profiles as `profiles.collect` returns them; those of `gpu` are taken.
    gpu, mechanism : str
        Where and how the jobs share.
    columns : sequence of str, optional
        Numeric columns to compute; all by default.
    start, stop : int
        First and end of the target workloads, to build a large square in parts.

    Returns
    -------
    pd.DataFrame
        Identity and numeric columns; row ``(i - start) * workloads + j`` is workload i beside workload j.
    """
    table = table[table.index.get_level_values("gpu") == gpu]
    count = len(table)
    targets = np.arange(start, count if stop is None else stop)
    own, other = np.repeat(targets, count), np.tile(np.arange(count), len(targets))
    names = table.index.get_level_values("workload").to_numpy(dtype=object)
    model = _attribute(table, "model")
    alone, models = np.empty(count, dtype=object), np.empty(count, dtype=object)
    alone[:], models[:] = [(name,) for name in names], [(name,) for name in model]  # one object for all its rows
    full = np.full(len(own), 100.0 if mechanism.startswith(MPS) else np.nan)
    rows = terms.Rows(
        values={name: table[name].to_numpy(dtype=np.float64) for name in _QUANTITY_NAMES},
        own=own,
        others=other[:, None],
        mechanism=np.full(len(own), mechanism, dtype=object),
        own_percentage=full,
        others_percentage=full,
        gpu=np.broadcast_to(gpu_descriptors(np.array([gpu], dtype=object)), (len(own), len(terms.GPU_DESCRIPTORS))),
        white_box=(lambda: _white_box_of_pairs(table, gpu, mechanism, names[own], names[other]))
        if whitebox_sets.LAUNCHES in table
        else None,
    )
    identity = pd.DataFrame(
        {
            "workload": names[own], "others": alone[other], "model": model[own], "models": models[other],
            "family": _attribute(table, "family")[own], "gpu": gpu, "mechanism": mechanism,
        }
    )  # fmt: skip
    return pd.concat([identity.astype({"gpu": object, "mechanism": object}), terms.compute(rows, columns)], axis=1)


def _attribute(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return each profile's family or model; a workload that names none is one of its own."""
    names = pd.Series(table.index.get_level_values("workload"), dtype=object)
    if name not in table:
        return names.to_numpy(dtype=object)
    by_name = table[name].groupby(level="workload").first()
    return names.map(by_name).where(lambda found: found.notna(), names).to_numpy(dtype=object)


def _rows(members: pd.DataFrame, keys: pd.MultiIndex, table: pd.DataFrame) -> terms.Rows:
    own = table.index.get_indexer(keys).astype(np.int64)
    run = pd.factorize(members["run_id"])[0]
    slot = members.groupby("run_id", sort=False).cumcount().to_numpy()
    size = int(slot.max()) + 1 if len(slot) else 1
    grid = np.full((int(run.max()) + 1 if len(run) else 0, size), -1, dtype=np.int64)
    grid[run, slot] = own
    caps = np.full(grid.shape, np.nan)
    # Under MPS a client without a cap may use every thread: the same as a cap of 100.
    uncapped = members["mechanism"].astype(str).str.startswith(MPS).to_numpy()
    percentage = members["thread_percentage"].to_numpy(dtype=np.float64)
    percentage = np.where(uncapped & np.isnan(percentage), 100.0, percentage)
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
        white_box=(lambda: _white_box(members, table)) if whitebox_sets.LAUNCHES in table else None,
    )


def _white_box(members: pd.DataFrame, table: pd.DataFrame) -> Floats:
    """Solve the white-box model for every member; members stand in the order of run and slot."""
    said = whitebox_sets.solve(table, whitebox_sets.of_members(members))
    return np.concatenate(said) if said else np.array([], dtype=np.float64)


def _white_box_of_pairs(table: pd.DataFrame, gpu: str, mechanism: str, own: np.ndarray, other: np.ndarray) -> Floats:
    asked = [whitebox_sets.SetQuery(gpu, mechanism, pair) for pair in zip(own, other, strict=True)]
    return np.array([said[0] for said in whitebox_sets.solve(table, asked)], dtype=np.float64)


def gpu_descriptors(gpus: np.ndarray) -> Floats:
    """Return the descriptors of GPUs by name, shape (gpus, descriptors); NaN for a GPU that the reference lacks."""
    known = reference.load(simulated=True)
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
