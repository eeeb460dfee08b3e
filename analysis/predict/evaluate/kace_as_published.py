"""KACE evaluated as its artifact does it, beside the same model without the leak and what is left as slowdown error.

Source: B.-S. Han, T. Paul, Z. Liu, A. Gandhi, *KACE: Kernel-Aware Colocation for Efficient GPU Spatial Sharing*, ACM
SoCC 2024, and its artifact: features of the pair summed (percentages averaged), the pair's summed raw throughput as
target, training and test each z-scored with its own mean and deviation, linear regression and random forest, and random
splits in which every workload stands n times in training, n = 2 ... 10, 5 seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from analysis.errors import NotEnoughDataError
from analysis.numbers import significant
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.execution import Progress
from analysis.predict.frame import profiles as solo_profiles
from analysis.predict.frame.schema import Floats, Ints
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.sources import require_dataset

#: Times that each workload stands in training.
TIMES = tuple(range(2, 11))
SEEDS = 5

#: Counters of a workload alone. With them and the sum of solo throughputs the published figures come out; with the
#: other columns of its table (sm%, mem%, memory) they don't, and without the solo throughputs the error is larger.
SUMMED = ("threads", "registers", "shared_memory")
AVERAGED = ("compute_throughput", "dram_throughput", "memory_throughput")


@dataclass(frozen=True)
class Pairs:
    """Measured pairs with raw throughputs.

    Attributes
    ----------
    X : ndarray, shape (pairs, columns)
        Features of the pair.
    solo, together : ndarray, shape (pairs,)
        Sum of the solo throughputs and of the throughputs side by side, in the members' own units.
    slowdowns : ndarray, shape (pairs, 2)
        Measured S of both members.
    names : ndarray of str, shape (pairs, 2)
        Who they are.
    """

    X: Floats
    solo: Floats
    together: Floats
    slowdowns: Floats
    names: np.ndarray


def reproduce(
    database: Database, dataset: str = "kace", times: Sequence[int] = TIMES, progress: Progress | None = None
) -> pd.DataFrame:
    """Evaluate KACE as published and without its leaks.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        A data set of pairs with raw throughputs and the counters of each workload alone.
    times : sequence of int
        How often each workload stands in training.
    progress : callable, optional
        As in `evaluate.evaluate`.

    Returns
    -------
    pd.DataFrame
        One row a number of times: times, training (percent of the pairs), linear and forest (MSE of the target z-scored
        with the test pairs' own statistics, as published), linear_sound and forest_sound (the training pairs'
        statistics instead), slowdown_error (median absolute percentage error of the members' S that follows from the
        sound linear model, percent), impossible (percent of the test pairs with a predicted throughput of zero or
        less). Means over the seeds.

    Raises
    ------
    NotEnoughDataError
        If there are fewer than 30 such pairs.
    """
    pairs = read_pairs(database, dataset)
    rows = []
    tasks = [(count, seed) for count in times for seed in range(SEEDS)]
    found = dict(
        execution.run(
            lambda task: once(pairs, *task), tasks, progress, describe=lambda task: f"each workload {task[0]} times"
        )
    )
    for count in times:
        parts = [found[number] for number, (one, _) in enumerate(tasks) if one == count]
        rows.append({"times": count, **{name: float(np.mean([part[name] for part in parts])) for name in parts[0]}})
    return pd.DataFrame(rows)


def in_words(found: pd.DataFrame) -> str:
    """Say what the published figures are and what is left of them.

    Parameters
    ----------
    found : pd.DataFrame
        As `reproduce` returns it.
    """
    first, last = found.iloc[0], found.iloc[-1]
    left, right = significant(first["slowdown_error"]), significant(last["slowdown_error"])
    return (
        f"As published, the error of the linear model falls from {first['linear']:.3f} to {last['linear']:.3f} between "
        f"{first['training']:.0f} and {last['training']:.0f} % of the pairs in training (MSE of the z-scored sum of "
        f"throughputs). With the training pairs' own scale it is {first['linear_sound']:.3f} and "
        f"{last['linear_sound']:.3f}, and as slowdown the same predictions are {left} and {right} % off at the median."
    )


def read_pairs(database: Database, dataset: str) -> Pairs:
    """Return the measured pairs of a data set whose throughputs and counters are all known."""
    require_dataset(database, dataset)
    members = coruns.members(database, Filter(datasets=(dataset,)))
    members = members[(members["k"] == 2) & (members["run_outcome"] == "ran") & (members["measure"] == "throughput")]
    table = solo_profiles.collect(database, dataset)[[*SUMMED, *AVERAGED]]
    profiles = table.reindex(pd.MultiIndex.from_frame(members[["gpu", "workload"]].astype(str)))
    complete = profiles.notna().all(axis=1).to_numpy() & members[["solo_value", "corun_value"]].notna().all(axis=1)
    by_run = pd.Series(complete, index=members.index).groupby(members["run_id"])
    whole = by_run.transform("all") & (by_run.transform("size") == 2)
    order = members[whole].sort_values(["run_id", "slot"], kind="stable")
    if len(order) < 60:
        raise NotEnoughDataError(
            f"data set {dataset} has {len(order) // 2} measured pairs with raw throughputs and counters; KACE needs 30",
            "Load the data set kace of the catalogue.",
        )
    each = table.loc[pd.MultiIndex.from_frame(order[["gpu", "workload"]].astype(str))].to_numpy(dtype=np.float64)
    both = each.reshape(-1, 2, each.shape[1])
    solo = order["solo_value"].to_numpy(dtype=np.float64).reshape(-1, 2)
    together = order["corun_value"].to_numpy(dtype=np.float64).reshape(-1, 2)
    summed = both.sum(axis=1)
    summed[:, len(SUMMED) :] /= 2.0
    return Pairs(
        X=np.column_stack([summed, solo.sum(axis=1)]),
        solo=solo.sum(axis=1),
        together=together.sum(axis=1),
        slowdowns=solo / together,
        names=order["workload"].to_numpy(dtype=object).reshape(-1, 2),
    )


def split(names: np.ndarray, count: int, seed: int) -> tuple[Ints, Ints]:
    """Divide pairs so that each workload stands at least `count` times in training, as far as its pairs reach."""
    seen: dict[str, int] = {}
    train = []
    for row in np.random.default_rng(seed).permutation(len(names)):
        pair = set(names[row])
        if any(seen.get(name, 0) < count for name in pair):
            train.append(int(row))
            for name in pair:
                seen[name] = seen.get(name, 0) + 1
    chosen = np.array(sorted(train), dtype=np.int64)
    return chosen, np.setdiff1d(np.arange(len(names)), chosen)


def once(pairs: Pairs, count: int, seed: int) -> dict[str, Any]:
    """Evaluate one split; see `reproduce` for the figures."""
    train, test = split(pairs.names, count, seed)
    X, y = pairs.X, pairs.together
    own_X, own_y = _scored(X[train]), _scored(y[train])
    centre, spread = y[train].mean(), y[train].std()
    sound_X, sound_y = _scored(X[test], X[train]), (y[test] - centre) / spread
    out: dict[str, Any] = {"training": 100.0 * len(train) / len(y)}
    forest = RandomForestRegressor(100, random_state=seed, n_jobs=1)
    for name, model in (("linear", LinearRegression()), ("forest", forest)):
        model.fit(own_X, own_y)
        out[name] = float(np.mean((model.predict(_scored(X[test])) - _scored(y[test])) ** 2))
        sound = model.predict(sound_X)
        out[f"{name}_sound"] = float(np.mean((sound - sound_y) ** 2))
        if name == "linear":
            throughput = centre + spread * sound
            possible = throughput > 0
            slowdown = pairs.solo[test][possible] / throughput[possible]
            errors = 100.0 * np.abs(slowdown[:, None] / pairs.slowdowns[test][possible] - 1.0)
            out["slowdown_error"] = float(np.median(errors))
            out["impossible"] = float(100.0 * (~possible).mean())
    return out


def _scored(values: Floats, by: Floats | None = None) -> Floats:
    by = values if by is None else by
    spread = by.std(axis=0)
    scored: Floats = (values - by.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scored
