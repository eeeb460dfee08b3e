"""Brings job profiles to one scale: logarithms, products, and training deviations from the training mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import BY_NAME, STALL_GROUPS
from analysis.predict.frame.schema import Floats
from analysis.predict.predictors.pairprofiles import CAP

#: Quantities of a job's profile. Magnitudes enter as logarithms.
QUANTITIES: tuple[str, ...] = (
    "step_length", "peak_memory", "threads", "registers", "shared_memory", "kernel_length", "kernel_threads",
    "short_kernel_length", "long_kernel_length", "long_short_ratio", "pcie_read", "pcie_write", "speedup_slow",
    "speedup_fast", "sm_util", "mem_util", "compute_throughput", "dram_throughput", "memory_throughput",
    "l2_throughput", "tensor_throughput", "occupancy", "issue_active", "half_precision", "training",
    "batch_elasticity", "relative_batch", "relative_step", "warp_cycles_per_issue",
    *(f"stall_{key}" for key in STALL_GROUPS),
)  # fmt: skip

#: Products that say more than their factors: work of a kernel, busy time of a step, of a kernel.
PRODUCTS: tuple[tuple[str, str, str], ...] = (
    ("work", "kernel_length", "kernel_threads"),
    ("busy_step", "step_length", "sm_util"),
    ("queue", "kernel_length", "sm_util"),
)


def others_column(name: str) -> str:
    """Return the frame's column that holds a quantity, or the cap, of the only co-runner of a pair."""
    if name == CAP:
        return f"others_{CAP}"
    return f"others_mean_{name}" if BY_NAME[name].scale == "setting" else f"others_sum_{name}"


def owner_of(name: str) -> str:
    """Return the quantity that a profile column or a product is summed back to."""
    return next((left for product, left, _ in PRODUCTS if product == name), name)


class ProfileScale:
    """Scales profiles by what the training jobs say.

    Parameters
    ----------
    columns : sequence of str
        Columns of a profile, as `pairprofiles.ProfileReader.columns` gives them.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)

    @property
    def kept_names(self) -> list[str]:
        """Names of the columns and products that vary among the training jobs."""
        names = [*self.columns, *(name for name, _, _ in PRODUCTS)]
        return [name for name, kept in zip(names, self.kept_, strict=True) if kept]

    def fit(self, values: Floats) -> Self:
        """Learn mean and deviation; columns that are unknown or constant are dropped.

        Parameters
        ----------
        values : ndarray, shape (jobs, columns)
            Raw profiles.
        """
        described = pd.DataFrame(self._extended(values))
        deviation = described.std(axis=0).to_numpy(dtype=np.float64)
        self.kept_ = np.asarray(np.nan_to_num(deviation) > 1e-6, dtype=bool)
        self.mean_ = described.mean(axis=0).to_numpy(dtype=np.float64)[self.kept_]
        self.deviation_ = deviation[self.kept_]
        return self

    def apply(self, values: Floats) -> Floats:
        """Return scaled profiles; what is unknown is put at the mean."""
        scaled = (self._extended(values)[:, self.kept_] - self.mean_) / self.deviation_
        return np.asarray(np.nan_to_num(scaled, nan=0.0), dtype=np.float64)

    def _extended(self, values: Floats) -> Floats:
        """Return profiles with logarithms of what the frame keeps as ln(1 + x), and the products."""
        out = values.copy()
        with np.errstate(divide="ignore", invalid="ignore"):
            for number, name in enumerate(self.columns):
                if name in BY_NAME and BY_NAME[name].scale == "magnitude":
                    raw = np.expm1(values[:, number])
                    out[:, number] = np.log(np.where(raw > 0, raw, np.nan))
            products = [self._log(out, left) + self._log(out, right) for _, left, right in PRODUCTS]
        return np.column_stack([out, *products])

    def _log(self, out: Floats, name: str) -> Floats:
        part: Floats = out[:, self.columns.index(name)]
        if BY_NAME[name].scale == "magnitude":
            return part
        return np.asarray(np.log(np.where(part > 0, part, np.nan)), dtype=np.float64)
