"""Gathers what is known of every workload running alone: one row a workload and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.predict.frame import counters
from analysis.predict.frame.quantities import QUANTITIES, factor, resolve
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, sources

#: Units of throughput that count samples, not steps; a step's length then needs the batch size.
_SAMPLE_UNITS = ("sample", "img", "image", "seq", "sentence", "token", "frame", "item")
_TIME_TO_MS = {"s": 1000.0, "second": 1000.0, "seconds": 1000.0, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "ns": 1e-6}
_HALF = ("amp", "fp16", "bf16", "half", "mixed", "float16", "bfloat16", "fp8", "1", "true")
_FULL = ("fp32", "float32", "full", "tf32", "0", "false")


def collect(database: Database, dataset: str, gpus: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the solo profile of every workload of a data set on every GPU it was measured on.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set; sets are never pooled.
    gpus : sequence of str, optional
        Canonical GPU names; all by default.

    Returns
    -------
    pd.DataFrame
        Index (gpu, workload). A column a quantity of `quantities.QUANTITIES`, in base units, NaN where unknown;
        beside them family, model, phase and memory_kind.
    """
    table = database.cached("solo profiles", dataset, lambda: _gather(database, dataset))
    if gpus is not None:
        table = table[table.index.get_level_values("gpu").isin(list(gpus))]
    return table.copy()


def _gather(database: Database, dataset: str) -> pd.DataFrame:
    everything = Filter(datasets=(dataset,))
    known = sources.workloads(database, everything)
    published = coruns.features(database, everything)
    solos = coruns.solos(database, everything)
    measured = coruns.members(database, everything)
    parts = [
        _published(published),
        _solo_values(solos, measured, known),
        counters.from_kernels(database, dataset),
        counters.from_stalls(database, dataset),
    ]
    index = pd.MultiIndex.from_tuples(
        sorted({pair for part in parts for pair in part.index} | _named(measured)), names=["gpu", "workload"]
    )
    table = pd.DataFrame(np.nan, index=index, columns=[quantity.name for quantity in QUANTITIES])
    for part in parts:  # the first source that knows a quantity keeps it: published aggregates stand for the whole job
        table = table.combine_first(part.reindex(columns=table.columns).astype(float))
    table = _configuration(table.reindex(columns=[q.name for q in QUANTITIES]), known)
    table = _within_model(_gain_over_other_gpus(table))
    kinds = solos.dropna(subset=["memory_kind"]).drop_duplicates(["gpu", "workload"])
    table["memory_kind"] = pd.Series(
        kinds["memory_kind"].to_numpy(), index=pd.MultiIndex.from_frame(kinds[["gpu", "workload"]]), dtype=object
    ).reindex(table.index)
    return table


def _named(measured: pd.DataFrame) -> set[tuple[str, str]]:
    pairs = measured[["gpu", "workload"]].drop_duplicates()
    return set(zip(pairs["gpu"].astype(str), pairs["workload"].astype(str), strict=True))


def _published(features: pd.DataFrame) -> pd.DataFrame:
    """Turn the long table of published features into quantities in base units."""
    long = features.dropna(subset=["value"]).copy()
    found = {name: resolve(str(name)) for name in long["name"].unique()}
    long = long[long["name"].map(lambda name: found[name] is not None).to_numpy(dtype=bool)]
    if long.empty:
        return _empty()
    units = [unit if isinstance(unit, str) else None for unit in long["unit"]]
    quantities: list[Any] = [found[name] for name in long["name"]]
    long["value"] *= [factor(quantity, unit) for quantity, unit in zip(quantities, units, strict=True)]
    long["name"] = [quantity.name for quantity in quantities]
    return long.pivot_table(index=["gpu", "workload"], columns="name", values="value", aggfunc="median")


def _solo_values(solos: pd.DataFrame, measured: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Step length and peak memory, from solo measurements or, where there are none, the solo side of co-run tables."""
    batch: dict[Any, float] = known.set_index("workload")["batch_size"].astype(float).to_dict()
    columns = ["gpu", "workload", "measure", "unit", "value", "peak_memory_mib"]
    beside = measured.rename(columns={"solo_value": "value"})[columns[:-1]].dropna(subset=["value"])
    frame = pd.concat([solos[columns], beside.assign(peak_memory_mib=np.nan)], ignore_index=True)
    if frame.empty:
        return _empty()
    frame["step_length"] = [
        step_length_us(measure, unit if isinstance(unit, str) else None, value, batch.get(workload, np.nan))
        for workload, measure, unit, value in zip(
            frame["workload"], frame["measure"], frame["unit"], frame["value"].astype(float), strict=True
        )
    ]
    frame["peak_memory"] = frame["peak_memory_mib"].astype(float)
    from_solos = frame.iloc[: len(solos)].groupby(["gpu", "workload"])[["step_length", "peak_memory"]].median()
    from_members = frame.iloc[len(solos) :].groupby(["gpu", "workload"])[["step_length", "peak_memory"]].median()
    return from_solos.combine_first(from_members)


def step_length_us(measure: str | None, unit: str | None, value: float, batch_size: float) -> float:
    """Return the time of one step in µs, or NaN where the measure can't tell (normalised values, latencies).

    A throughput in samples is turned into steps with the batch size; where that is unknown, one sample counts as one
    step.
    """
    text = (unit or "").strip().lower()
    if measure == "throughput" and value > 0:
        per_step = batch_size if any(word in text for word in _SAMPLE_UNITS) and np.isfinite(batch_size) else 1.0
        return 1e6 * per_step / value
    if measure in ("time", "latency") and value > 0 and text in _TIME_TO_MS:
        return 1e3 * value * _TIME_TO_MS[text]
    return float("nan")


def _configuration(table: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Add batch size, precision, phase and the names that group workloads."""
    attributes = known.drop_duplicates("workload").set_index("workload")
    workload = table.index.get_level_values("workload")
    batch = attributes["batch_size"].astype(float).reindex(workload).to_numpy()
    table["batch_size"] = table["batch_size"].fillna(pd.Series(batch, index=table.index))
    precision = attributes["precision"].reindex(workload).astype(object)
    table["half_precision"] = [_flag(value, _HALF, _FULL) for value in precision]
    phase = attributes["phase"].reindex(workload).astype(object)
    table["training"] = [_flag(value, ("train", "training"), ("inf", "infer", "inference", "serve")) for value in phase]
    family = attributes["family"].astype(object).where(attributes["family"].notna(), attributes["model"].astype(object))
    family = family.where(family.notna(), pd.Series(attributes.index, index=attributes.index))
    table["family"] = family.reindex(workload).to_numpy()
    table["phase"] = phase.to_numpy()
    model = attributes["model"].astype(object).where(attributes["model"].notna(), family)
    table["model"] = model.reindex(workload).to_numpy()
    return table


def _flag(value: object, yes: tuple[str, ...], no: tuple[str, ...]) -> float:
    text = str(value).strip().lower() if value is not None else ""
    return 1.0 if text in yes else 0.0 if text in no else float("nan")


def _gain_over_other_gpus(table: pd.DataFrame) -> pd.DataFrame:
    """How much faster this GPU runs the workload alone than the slowest and the fastest *other* GPU of the data set.

    Solo speeds on several GPUs say what limits a workload; a co-run is never looked at.
    """
    steps = table["step_length"].unstack("gpu")
    steps = steps.loc[:, steps.notna().any()]
    if steps.shape[1] < 2:
        return table
    order = steps.median().sort_values(ascending=False).index
    for gpu in order:
        others = [name for name in order if name != gpu]
        for column, other in (("speedup_slow", others[0]), ("speedup_fast", others[-1])):
            here = table.index.get_level_values("gpu") == gpu
            ratio = (steps[other] / steps[gpu]).reindex(table.index.get_level_values("workload")).to_numpy()
            table[column] = np.where(here, ratio, table[column])
    return table


def _within_model(table: pd.DataFrame) -> pd.DataFrame:
    """Compare a workload with its model's other solo profiles on the same GPU, of the same precision and phase.

    How the step length grows with the batch size says how much of a step is GPU time: an elasticity near 1 is all
    work, near 0 all overhead.
    """
    batch, step = np.log(table["batch_size"]), np.log(table["step_length"])
    key = [
        table.index.get_level_values("gpu").astype(str),
        table["model"].astype(str),
        table["half_precision"].fillna(0.0),
        table["training"].fillna(0.0),
    ]
    for column, values in (("relative_batch", batch), ("relative_step", step)):
        table[column] = values - values.groupby(key).transform("mean")
    elasticity = pd.Series(np.nan, index=table.index)
    for rows in batch.groupby(key).indices.values():
        known = rows[np.isfinite(batch.iloc[rows]) & np.isfinite(step.iloc[rows])]
        order = known[np.argsort(batch.iloc[known].to_numpy(), kind="stable")]
        x, y = batch.iloc[order].to_numpy(), step.iloc[order].to_numpy()
        first = np.concatenate([[True], np.diff(x) > 0]) if len(x) else np.array([], dtype=bool)
        order, x, y = order[first], x[first], y[first]
        if len(x) >= 2:
            left, right = np.maximum(np.arange(len(x)) - 1, 0), np.minimum(np.arange(len(x)) + 1, len(x) - 1)
            elasticity.iloc[order] = np.clip((y[right] - y[left]) / (x[right] - x[left]), 0.0, 1.1)
    table["batch_elasticity"] = elasticity
    return table


def _empty() -> pd.DataFrame:
    return pd.DataFrame(index=pd.MultiIndex.from_arrays([[], []], names=["gpu", "workload"]))
