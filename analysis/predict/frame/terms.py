"""Turns solo profiles into the columns of a member's row: own, co-runners, pair and GPU, for any number of co-runners.

Each column's documentation and its arithmetic stand in one place, so that the schema can't drift from the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import QUANTITIES, Quantity
from analysis.predict.frame.schema import Column, FeatureSchema, Floats, Ints
from analysis.reference.mechanism_names import MPS, MPS_PRIORITY

#: Mechanisms with a column of their own; any other sets ``mechanism_other``.
MECHANISMS: Mapping[str, str] = {
    "exclusive": "exclusive", "time-slicing": "time_slicing", MPS: "mps",
    MPS_PRIORITY: "mps_priority", "MIG": "mig", "MPS inside MIG": "mps_in_mig",
    "static SM partition": "sm_partition", "streams": "streams", "block-level priority (Tally)": "tally", "TGS": "tgs",
}  # fmt: skip

#: Descriptors of a GPU: column, meaning, unit.
GPU_DESCRIPTORS: tuple[tuple[str, str, str], ...] = (
    ("gpu_sms", "streaming multiprocessors", "ln(count)"),
    ("gpu_memory", "memory size", "ln(MiB)"),
    ("gpu_bandwidth", "memory bandwidth", "ln(GB/s)"),
    ("gpu_fp32", "peak FP32 rate", "ln(GFLOP/s)"),
    ("gpu_l2", "L2 cache", "ln(MiB)"),
    ("gpu_generation", "compute capability", "version"),
)


#: Column with the prediction of the white-box model; empty unless a frame is built with it.
WHITE_BOX = "white_box"


@dataclass(frozen=True)
class Rows:
    """Who runs beside whom, as numbers into a table of profiles.

    Attributes
    ----------
    values : mapping of str to ndarray, shape (profiles,)
        Quantities in base units.
    own : ndarray of int, shape (rows,)
        Profile of the job whose slowdown is asked for.
    others : ndarray of int, shape (rows, most co-runners)
        Profiles of its co-runners, padded with -1. Each row is sorted, so that the order they came in can't matter.
    mechanism : ndarray of str, shape (rows,)
        How they share.
    own_percentage, others_percentage : ndarray, shape (rows,)
        MPS thread percentage of the job, and the sum over its co-runners; NaN where no cap is set.
    gpu : ndarray, shape (rows, descriptors)
        Values of `GPU_DESCRIPTORS`.
    white_box : callable, optional
        Solves the white-box model, ln S for each row; only called when its column is computed.
    """

    values: Mapping[str, Floats]
    own: Ints
    others: Ints
    mechanism: np.ndarray
    own_percentage: Floats
    others_percentage: Floats
    gpu: Floats
    white_box: Callable[[], Floats] | None = None

    @property
    def count(self) -> Floats:
        """Jobs on the GPU, k, for each row."""
        count: Floats = 1.0 + (self.others >= 0).sum(axis=1).astype(np.float64)
        return count

    def gather(self, per_profile: Floats, pad: float) -> Floats:
        """Return the co-runners' values, shape (rows, most co-runners); a missing co-runner gives `pad`."""
        gathered: Floats = np.where(self.others >= 0, per_profile[self.others], pad)
        return gathered

    def total(self, per_profile: Floats) -> Floats:
        """Return the sum over the co-runners."""
        total: Floats = self.gather(per_profile, 0.0).sum(axis=1)
        return total

    def most(self, per_profile: Floats) -> Floats:
        """Return the largest value among the co-runners; NaN if one of them is unknown."""
        largest: Floats = self.gather(per_profile, -np.inf).max(axis=1)
        return np.where(np.isneginf(largest), np.nan, largest)


@dataclass(frozen=True)
class Term:
    """One column: its documentation, the quantities it needs, and how it is computed."""

    column: Column
    needs: tuple[str, ...]
    compute: Callable[[Rows], Floats]


def ln(values: Floats) -> Floats:
    """Return ln(1 + x): close to the logarithm for large magnitudes, and defined at zero."""
    return np.log1p(np.maximum(values, 0.0))


def _fraction_terms(q: Quantity) -> list[Term]:
    n, m = q.name, q.meaning
    return [
        _own(q),
        _term(f"others_sum_{n}", f"{m}: sum over the co-runners", "fraction of peak", "co-runners", q,
              lambda r: r.total(r.values[n])),
        _term(f"others_max_{n}", f"{m}: largest co-runner", "fraction of peak", "co-runners", q,
              lambda r: r.most(r.values[n])),
        _term(f"product_{n}", f"{m}: own times the co-runners' sum", "1", "pair", q,
              lambda r: r.values[n][r.own] * r.total(r.values[n])),
        _term(f"overload_{n}", f"{m}: demand of all jobs beyond what the GPU has, max(0, sum - 1)", "fraction of peak",
              "pair", q, lambda r: np.maximum(r.values[n][r.own] + r.total(r.values[n]) - 1.0, 0.0)),
    ]  # fmt: skip


def _magnitude_terms(q: Quantity) -> list[Term]:
    n, m = q.name, q.meaning
    unit = f"ln(1 + {q.unit})"
    return [
        Term(Column(f"own_{n}", f"{m}: own", unit, "target", q.what, n), (n,), lambda r: ln(r.values[n])[r.own]),
        Term(Column(f"others_sum_{n}", f"{m}: sum over the co-runners", unit, "co-runners", q.what, n), (n,),
             lambda r: ln(r.total(r.values[n]))),
        Term(Column(f"others_max_{n}", f"{m}: largest co-runner", unit, "co-runners", q.what, n), (n,),
             lambda r: ln(r.most(r.values[n]))),
        Term(Column(f"ratio_{n}", f"{m}: largest co-runner over own", "ln(ratio)", "pair", q.what, n), (n,),
             lambda r: ln(r.most(r.values[n])) - ln(r.values[n])[r.own]),
        Term(Column(f"fraction_{n}", f"{m}: own part of the total of all jobs", "fraction", "pair", q.what, n), (n,),
             lambda r: _part(r.values[n][r.own], r.total(r.values[n]))),
    ]  # fmt: skip


def _share_terms(q: Quantity) -> list[Term]:
    n, m = q.name, q.meaning
    return [
        _own(q),
        _term(f"others_sum_{n}", f"{m}: sum over the co-runners", q.unit, "co-runners", q,
              lambda r: r.total(r.values[n])),
        _term(f"product_{n}", f"{m}: own times the co-runners' sum", "1", "pair", q,
              lambda r: r.values[n][r.own] * r.total(r.values[n])),
    ]  # fmt: skip


def _setting_terms(q: Quantity) -> list[Term]:
    n = q.name
    return [
        _own(q),
        _term(f"others_mean_{n}", f"{q.meaning}: mean of the co-runners", q.unit, "co-runners", q,
              lambda r: r.total(r.values[n]) / np.maximum(r.count - 1.0, 1.0)),
    ]  # fmt: skip


def _own(q: Quantity) -> Term:
    n = q.name
    return _term(f"own_{n}", f"{q.meaning}: own", q.unit, "target", q, lambda r: r.values[n][r.own])


def _term(name: str, meaning: str, unit: str, whose: str, q: Quantity, compute: Callable[[Rows], Floats]) -> Term:
    return Term(Column(name, meaning, unit, whose, q.what, q.name), (q.name,), compute)  # type: ignore[arg-type]


def _part(own: Floats, others: Floats) -> Floats:
    total = own + others
    return np.divide(own, total, out=np.full_like(total, np.nan), where=total > 0)


def _head_of_line(r: Rows) -> Floats:
    """Return ln(1 + sum u_other length_other / length_own): short kernels queue behind a neighbour's long ones."""
    length = r.values["kernel_length"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log1p(r.total(r.values["sm_util"] * length) / length[r.own])


def _work(r: Rows) -> Floats:
    """Return ln(length x threads) of the largest co-runner minus the job's own."""
    work = r.values["kernel_length"] * r.values["kernel_threads"]
    return ln(r.most(work)) - ln(work)[r.own]


def _step_queue(r: Rows) -> Floats:
    step = r.values["step_length"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log1p(r.total(r.values["sm_util"] * step) / step[r.own])


def _memory_demand(r: Rows) -> Floats:
    """Return the sum of all peaks over the GPU's memory."""
    peak = r.values["peak_memory"]
    capacity = np.exp(r.gpu[:, 1])
    return (peak[r.own] + r.total(peak)) / capacity


def _white_box(r: Rows) -> Floats:
    return np.full(len(r.own), np.nan) if r.white_box is None else r.white_box()


def _special_terms() -> list[Term]:
    return [
        Term(Column("head_of_line", "how long its kernels wait behind those of the co-runners, in own kernel lengths",
                    "ln(1 + ratio)", "pair", "duty cycle", "kernel_length"), ("sm_util", "kernel_length"),
             _head_of_line),
        Term(Column("work_difference", "threads times length of a kernel: largest co-runner over own", "ln(ratio)",
                    "pair", "duty cycle", "kernel_length"), ("kernel_length", "kernel_threads"), _work),
        Term(Column("step_queue", "busy time of the co-runners' steps, in own step lengths", "ln(1 + ratio)", "pair",
                    "duty cycle", "step_length"), ("sm_util", "step_length"), _step_queue),
        Term(Column("memory_demand", "peaks of all jobs over the GPU's memory", "fraction of memory", "pair",
                    "duty cycle", "peak_memory"), ("peak_memory",), _memory_demand),
        Term(Column(WHITE_BOX, "slowdown that the white-box queueing model computes from the jobs' solo stall profiles",
                    "ln(ratio)", "pair", "white box", WHITE_BOX), (), _white_box),
        Term(Column("k", "jobs on the GPU at once", "jobs", "pair", "configuration", "k"), (), lambda r: r.count),
        Term(Column("own_thread_percentage", "MPS thread percentage: own", "fraction", "target", "configuration",
                    "thread_percentage"), (), lambda r: r.own_percentage / 100.0),
        Term(Column("others_thread_percentage", "MPS thread percentage: sum over the co-runners", "fraction",
                    "co-runners", "configuration", "thread_percentage"), (), lambda r: r.others_percentage / 100.0),
    ]  # fmt: skip


def _mechanism_terms() -> list[Term]:
    def flag(mechanism: str) -> Callable[[Rows], Floats]:
        return lambda r: (r.mechanism == mechanism).astype(np.float64)

    terms = [
        Term(Column(f"mechanism_{short}", f"1 under {name}", "flag", "pair", "configuration", "mechanism"), (),
             flag(name))
        for name, short in MECHANISMS.items()
    ]  # fmt: skip
    other = Column("mechanism_other", "1 under any other mechanism", "flag", "pair", "configuration", "mechanism")
    return [*terms, Term(other, (), lambda r: (~np.isin(r.mechanism, list(MECHANISMS))).astype(np.float64))]


def _gpu_terms() -> list[Term]:
    def descriptor(number: int) -> Callable[[Rows], Floats]:
        return lambda r: r.gpu[:, number]

    return [
        Term(Column(name, f"GPU: {meaning}", unit, "GPU", "configuration", name), (), descriptor(number))
        for number, (name, meaning, unit) in enumerate(GPU_DESCRIPTORS)
    ]


_MAKERS: Mapping[str, Callable[[Quantity], list[Term]]] = {
    "fraction": _fraction_terms, "magnitude": _magnitude_terms, "share": _share_terms, "setting": _setting_terms,
}  # fmt: skip


@lru_cache(maxsize=1)
def all_terms() -> tuple[Term, ...]:
    """Return every column that a frame can have, in the frame's order."""
    of_quantities = [term for quantity in QUANTITIES for term in _MAKERS[quantity.scale](quantity)]
    return (*of_quantities, *_special_terms(), *_mechanism_terms(), *_gpu_terms())


@lru_cache(maxsize=1)
def schema() -> FeatureSchema:
    """Return the documented columns of a frame."""
    return FeatureSchema(tuple(term.column for term in all_terms()))


def compute(rows: Rows, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the columns of the frame, or some of them.

    Parameters
    ----------
    rows : Rows
        Who runs beside whom.
    columns : sequence of str, optional
        Names to compute, in this order; all by default.

    Returns
    -------
    pd.DataFrame
        One row a member, float64; NaN where a profile lacks what a column needs.
    """
    known = {term.column.name: term for term in all_terms()}
    wanted = list(known) if columns is None else list(columns)
    out = np.empty((len(rows.own), len(wanted)), dtype=np.float64, order="F")
    empty = {name for name, values in rows.values.items() if np.isnan(values).all()}
    for number, name in enumerate(wanted):
        term = known[name]
        out[:, number] = np.nan if empty & set(term.needs) else term.compute(rows)
    return pd.DataFrame(out, columns=wanted, copy=False)
