"""Features as people know them: one name for all columns of a quantity and owner, its resource, and its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from analysis.predict.frame.quantities import STALL_GROUPS
from analysis.predict.frame.schema import Column, Floats
from analysis.predict.frame.terms import schema
from analysis.reference import stall_reasons

#: Resource that a quantity speaks of; stall shares have their group's name instead.
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "compute": ("sm_util", "compute_throughput", "tensor_throughput", "occupancy", "issue_active", "eligible_warps",
                "warp_cycles_per_issue"),
    "DRAM and caches": ("mem_util", "dram_throughput", "memory_throughput", "l2_throughput", "l1_throughput",
                        "l1_hit_rate", "l2_hit_rate"),
    "kernel lengths": ("kernel_length", "short_kernel_length", "long_kernel_length", "long_short_ratio",
                       "kernels_per_step"),
    "step length": ("step_length", "relative_step", "batch_elasticity", "speedup_slow", "speedup_fast"),
    "launch size": ("threads", "kernel_threads", "registers", "shared_memory"),
    "host traffic": ("pcie_read", "pcie_write"),
    "memory footprint": ("peak_memory",),
    "queueing model": ("white_box",),
    "configuration": ("batch_size", "relative_batch", "half_precision", "training", "k", "mechanism",
                      "thread_percentage"),
}  # fmt: skip

#: Short names for labels; a quantity that is missing here says its name.
_LABELS: Mapping[str, str] = {
    "sm_util": "GPU-busy share", "mem_util": "memory-busy share", "compute_throughput": "SM throughput",
    "dram_throughput": "DRAM throughput", "memory_throughput": "memory-path throughput",
    "l2_throughput": "L2 throughput", "l1_throughput": "L1 throughput", "tensor_throughput": "tensor throughput",
    "relative_batch": "relative batch size", "relative_step": "relative step length",
    "batch_elasticity": "growth of the step with the batch", "k": "number of jobs", "mechanism": "sharing mechanism",
    "training": "training or inference",
    "half_precision": "half precision", "speedup_slow": "speed against the slowest other GPU",
    "speedup_fast": "speed against the fastest other GPU", "thread_percentage": "MPS thread percentage",
    "long_short_ratio": "long kernels for each short one", "pcie_read": "PCIe reads", "pcie_write": "PCIe writes",
    "white_box": "white-box prediction",
}  # fmt: skip

#: What a flag says when it is not set, and when it is.
_FLAGS: Mapping[str, tuple[str, str]] = {
    "training": ("inference", "training"), "half_precision": ("full precision", "half precision"),
}  # fmt: skip

_OWNER: Mapping[str, str] = {"target": "own", "co-runners": "of the co-runners", "pair": "together", "GPU": ""}

#: Owners of features as people call them in tables and legends.
OWNERS: Mapping[str, str] = {"target": "own", "co-runners": "co-runners", "pair": "all together", "GPU": "GPU"}

_HISTORY: Mapping[str, tuple[str, str]] = {
    "workload": ("what this job pays in its measured runs", "target"),
    "others": ("what the co-runners cost in measured runs", "co-runners"),
    "workload and others": ("what these jobs cost each other, measured", "pair"),
    "gpu and mechanism": ("GPU and mechanism in measured runs", "GPU"),
    "caution": ("margin for how little is known", "pair"),
}


@dataclass(frozen=True)
class Feature:
    """What several columns together mean to people.

    Attributes
    ----------
    label : str
        Such as ``kernel length, of the co-runners``.
    whose, what, group : str
        Owner; kind of evidence; stall group or resource.
    main : str
        Column whose value stands for the feature.
    """

    label: str
    whose: str
    what: str
    group: str
    main: str


@cache
def feature_of(column: str) -> Feature:
    """Return the feature that a column, or a part of the history, belongs to."""
    if column in _HISTORY:
        label, whose = _HISTORY[column]
        return Feature(label, whose, "identity", "measured before", column)
    found: Column = schema()[column]
    return Feature(_label(found), found.whose, found.what, _group(found.quantity), _main(found))


def by_feature(values: pd.DataFrame) -> tuple[list[Feature], Floats]:
    """Sum contributions by column back to features.

    Parameters
    ----------
    values : pd.DataFrame, shape (rows, columns)
        Contributions by column of the frame, or by part of the history.

    Returns
    -------
    features : list of Feature
        Different from each other.
    sums : ndarray, shape (rows, features)
        Their contributions.
    """
    owners = [feature_of(str(name)) for name in values.columns]
    distinct = list(dict.fromkeys(owners))
    member = np.array([[owner == feature for feature in distinct] for owner in owners], dtype=np.float64)
    sums: Floats = values.to_numpy(dtype=np.float64) @ member.reshape(len(owners), len(distinct))
    return distinct, sums


def _label(column: Column) -> str:
    name = column.quantity
    if name.startswith("stall_"):
        name = f"stalls: {STALL_GROUPS[name.removeprefix('stall_')]}"
    elif name.startswith("reason_"):
        name = f"stall reason {name.removeprefix('reason_')}"
    else:
        name = _LABELS.get(name, name.replace("_", " "))
    owner = _OWNER[column.whose]
    return f"{name}, {owner}" if owner and column.quantity not in ("k", "mechanism", "white_box") else name


def _group(quantity: str) -> str:
    if quantity.startswith("stall_"):
        return STALL_GROUPS[quantity.removeprefix("stall_")]
    if quantity.startswith("reason_"):
        return stall_reasons.group_of(quantity.removeprefix("reason_"))
    if quantity.startswith("gpu_"):
        return "GPU"
    return next((group for group, names in RESOURCES.items() if quantity in names), "configuration")


def _main(column: Column) -> str:
    """Return the one column whose value stands for all columns of the same quantity and owner."""
    alike = [other.name for other in schema() if (other.quantity, other.whose) == (column.quantity, column.whose)]
    preferred = ("own_", "others_sum_", "overload_", "ratio_")
    return next((name for start in preferred for name in alike if name.startswith(start)), alike[0])


def shown_value(feature: Feature, row: pd.Series[Any]) -> str:
    """Return the value of a feature in a row, with its unit; names for history and mechanism."""
    if feature.group == "measured before":
        shown = {
            "workload": str(row["workload"]),
            "others": ", ".join(row["others"]),
            "gpu and mechanism": f"{row['gpu']}, {row['mechanism']}",
            "caution": "",
        }
        return shown.get(feature.main, f"{row['workload']} beside {', '.join(row['others'])}")
    column = schema()[feature.main]
    if column.quantity == "mechanism":
        return str(row["mechanism"])
    return shown_number(column, float(row[feature.main]))


def natural(column: str, values: Floats) -> tuple[Floats, str]:
    """Return values of a column in the unit that people know, without the logarithm, and that unit."""
    known = next((one for one in schema() if one.name == column), None)
    if known is None:
        return values, ""
    unit = known.unit
    if unit.startswith("ln(1 + "):
        return np.expm1(values), _said(unit.removeprefix("ln(1 + ").removesuffix(")"))
    if unit == "ln(ratio)":
        return np.exp(values), "times"
    if unit.startswith("ln("):
        return np.exp(values), _said(unit.removeprefix("ln(").removesuffix(")"))
    if unit.startswith("fraction"):
        return 100.0 * values, "%"
    return values, "" if unit in ("1", "flag", "version") else unit


def shown_number(column: Column, value: float) -> str:
    """Return a value of the frame in the unit that people know, without the logarithm."""
    if np.isnan(value):
        return "unknown"
    if column.quantity in _FLAGS and column.name.startswith(("own_", "others_mean_")):
        words = _FLAGS[column.quantity]
        return words[int(value)] if value in (0.0, 1.0) else f"{100 * value:.0f} % {words[1]}"
    if column.quantity in ("relative_batch", "relative_step") and column.unit == "ln(ratio)":
        return f"{np.exp(value):.3g} times its model's mean"
    if column.unit.startswith("ln(1 + "):
        return _readable(float(np.expm1(value)), column.unit.removeprefix("ln(1 + ").removesuffix(")"))
    if column.unit == "ln(ratio)":
        return f"{np.exp(value):.3g} times"
    if column.unit.startswith("ln("):
        return _readable(float(np.exp(value)), column.unit.removeprefix("ln(").removesuffix(")"))
    if column.unit.startswith("fraction"):
        return f"{100 * value:.1f} %"
    return f"{value:.4g}" if column.unit in ("1", "flag", "version") else _readable(value, column.unit)


#: Larger units, and how many of the smaller one make one.
_LARGER: Mapping[str, tuple[tuple[float, str], ...]] = {
    "µs": ((1e6, "s"), (1e3, "ms")),
    "byte": ((2.0**20, "MiB"), (2.0**10, "KiB")),
    "MiB": ((2.0**10, "GiB"),),
}

#: Units that say nothing to people beside a number.
_UNSAID = ("ratio", "published unit")


def _readable(value: float, unit: str) -> str:
    """Return a number with its unit, large ones in a larger unit or in words."""
    for many, larger in _LARGER.get(unit, ()):
        if abs(value) >= many:
            return f"{value / many:.3g} {larger}"
    words = f" {_said(unit)}".rstrip()
    for many, word in ((1e9, "billion"), (1e6, "million"), (1e4, "thousand")):
        if abs(value) >= many:
            return f"{value / (1e3 if many == 1e4 else many):.3g} {word}{words}"
    return f"{value:.4g}{words}"


def _said(unit: str) -> str:
    return "" if unit in _UNSAID else unit
