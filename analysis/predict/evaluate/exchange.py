"""Work with predictors made elsewhere: the frame with its folds goes out, out-of-fold predictions come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputRefusedError, StallScopeError, UsageError, Where
from analysis.predict.evaluate import protocols
from analysis.predict.evaluate.comparison import Collected, bootstrap_of, comparison_row
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.protocols import Fold
from analysis.predict.evaluate.selection import select_frame
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.predictors.registry import DEFAULT, PredictorSpec
from analysis.store.database import Database
from analysis.store.queries import models as store

#: Columns that identify a row of a prediction file.
KEYS = ("seed", "fold", "run_id", "slot")

_REQUIRED = (*KEYS, "predicted")
_TEST, _TRAIN = "test", "train"


@dataclass(frozen=True)
class Division:
    """The rows of a protocol and how they are divided.

    Attributes
    ----------
    frame : TrainingFrame
        The rows.
    folds : list of Fold
        The divisions.
    request : dict
        What was asked for, with the keys of a stored evaluation's request.
    notes : tuple of str
        What is to be said about the choice of rows.
    """

    frame: TrainingFrame
    folds: list[Fold]
    request: dict[str, Any]
    notes: tuple[str, ...] = ()


def divide(
    database: Database,
    dataset: str,
    protocol: str,
    *,
    gpu: str | None = None,
    train_gpus: Sequence[str] | None = None,
    runs: int | None = None,
    include_flagged: bool = False,
    mechanism: str | None = None,
) -> Division:
    """Divide the rows of a data set exactly as `evaluate` does; the arguments are the same."""
    selected = select_frame(
        database, dataset, protocol, gpu, train_gpus, mechanism, include_flagged, white_box=True
    )  # fmt: skip
    chosen = protocols.prepare(selected.frame, protocol)
    folds = protocols.folds(
        chosen, protocol, gpu=selected.test_gpu, train_gpus=selected.train_gpus, runs=10 if runs is None else runs
    )  # fmt: skip
    request = {
        "dataset": dataset, "protocol": protocol, "gpu": gpu, "train_gpus": list(train_gpus) if train_gpus else None,
        "runs": runs, "include_flagged": include_flagged, "mechanism": mechanism,
    }  # fmt: skip
    return Division(chosen, folds, request, selected.notes)


def column_of(fold: Fold) -> str:
    """Return the name of a fold's column."""
    return f"seed{fold.seed}_fold{fold.number}"


def fold_table(division: Division) -> pd.DataFrame:
    """Return the frame with one column a fold.

    Returns
    -------
    pd.DataFrame
        One row a member: run_id, slot, workload, co_workloads (joined by `` + ``), gpu, mechanism, slowdown, every
        column of the feature schema, and for each fold a column ``seedS_foldF`` with ``train``, ``test``, or nothing
        where the fold leaves the row out.
    """
    rows = division.frame.rows
    identity = pd.DataFrame(
        {
            **{name: rows[name] for name in ("run_id", "slot", "workload")},
            "co_workloads": [" + ".join(others) for others in rows["others"]],
            **{name: rows[name] for name in ("gpu", "mechanism", "slowdown")},
        }
    )
    roles = {}
    for fold in division.folds:
        role = np.full(len(rows), "", dtype=object)
        role[fold.train], role[fold.test] = _TRAIN, _TEST
        roles[column_of(fold)] = role
    features = division.frame.X[division.frame.schema.names]
    return pd.concat([identity, features, pd.DataFrame(roles, index=rows.index)], axis=1)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table; the ending decides between CSV and Parquet.

    Raises
    ------
    UsageError
        If the ending is neither.
    StallScopeError
        If the file can't be written.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError(f"a table can't be written as {path.suffix!r}", "End the file name in .csv or .parquet.")
    try:
        if path.suffix.lower() == ".csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, index=False)
    except OSError as error:
        raise StallScopeError(
            f"the table can't be written: {error.strerror or error}", "Name a file in a folder that exists.",
            Where(str(path)),
        ) from error  # fmt: skip


def read_predictions(path: Path) -> pd.DataFrame:
    """Read out-of-fold predictions made elsewhere.

    Parameters
    ----------
    path : Path
        CSV or Parquet with the columns seed, fold, run_id, slot and predicted (S, a plain ratio); optionally predictor,
        low and high.

    Returns
    -------
    pd.DataFrame
        Typed, with all of these columns.

    Raises
    ------
    InputRefusedError
        If it can't be read, a column is missing, or a value is no positive number.
    """
    where = Where(path.name)
    try:
        table = pd.read_parquet(path) if path.suffix.lower() == ".parquet" else pd.read_csv(path)
    except FileNotFoundError as error:
        raise InputRefusedError("there is no such file", "Check the path.", where) from error
    except (OSError, ValueError) as error:
        raise InputRefusedError(
            f"the table can't be read ({str(error).splitlines()[0]})", "Give CSV, or Parquet ending in .parquet.", where
        ) from error
    missing = [name for name in _REQUIRED if name not in table]
    if missing:
        raise InputRefusedError(
            f"the column {missing[0]!r} is missing", f"A prediction needs {', '.join(_REQUIRED)}.", where
        )
    for name in (*_REQUIRED, *(name for name in ("low", "high") if name in table)):
        numbers = pd.to_numeric(table[name], errors="coerce")
        wrong = numbers.isna() if name in _REQUIRED else numbers.isna() & table[name].notna()
        if name == "predicted":
            wrong |= ~np.isfinite(numbers) | (numbers <= 0)
        if name in KEYS:
            wrong |= numbers != numbers.round()
        if wrong.any():
            line = int(np.flatnonzero(wrong)[0]) + 2
            kind = "a positive number" if name == "predicted" else "a number" if name not in KEYS else "a whole number"
            raise InputRefusedError(
                f"'{table[name].iloc[line - 2]}' is not {kind}", "Slowdowns are plain ratios, 1.34 is 34 % slower.",
                Where(path.name, line, name),
            )  # fmt: skip
        table[name] = numbers.astype(np.int64) if name in KEYS else numbers.astype(float)
    for name in ("low", "high"):
        if name not in table:
            table[name] = np.nan
    table["predictor"] = table["predictor"].astype(str) if "predictor" in table else path.stem
    return table


def rank(
    database: Database, division: Division, given: pd.DataFrame, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """Put predictions made elsewhere beside ours, by the same figures on the same rows.

    Parameters
    ----------
    database : Database
        The open database.
    division : Division
        The rows that were to be predicted.
    given : pd.DataFrame
        As `read_predictions` returns it; several predictors are ranked one by one.
    progress : callable, optional
        As in `evaluate`, used where the comparison has to be computed.

    Returns
    -------
    list of dict
        Rows of a comparison, the best first: theirs, and the newest row of every predictor that was scored on the same
        request. The default predictor and the references are evaluated where they were not.

    Raises
    ------
    InputRefusedError
        If a test row of a fold has no prediction, or more than one, or there are predictions for other rows.
    """
    protocol = str(division.request["protocol"])
    ours = _ours(database, division, progress)
    median = next((row["mape"] for row in ours if row["predictor"] == "train-median"), None)
    tested = np.unique(np.concatenate([fold.test for fold in division.folds]))
    bootstrap = bootstrap_of(division.frame.take(tested), division.frame, division.folds)
    theirs = []
    for name, part in given.groupby("predictor", sort=False):
        spec = PredictorSpec(str(name), str(name), "own", lambda: None)
        collected = Collected(parts={0: _matched(division, part, str(name))})
        row = comparison_row(spec, protocol, "ok", collected, len(division.folds), bootstrap)
        if row["mape"] is not None and median:
            row["skill"] = 1.0 - row["mape"] / median
        theirs.append(row)
    rows = [*theirs, *(row for row in ours if row["predictor"] not in {row["predictor"] for row in theirs})]
    return sorted(rows, key=lambda row: (row["mape"] is None, row["mape"] or 0.0))


def _matched(division: Division, given: pd.DataFrame, name: str) -> pd.DataFrame:
    """Bring the predictions into the order of the folds' test rows; each of them exactly once."""
    rows = division.frame.rows
    parts = [
        pd.DataFrame(
            {
                "seed": fold.seed,
                "fold": fold.number,
                "run_id": rows["run_id"].to_numpy()[fold.test],
                "slot": rows["slot"].to_numpy()[fold.test],
                "measured": rows["slowdown"].to_numpy()[fold.test],
            }
        )
        for fold in division.folds
    ]
    wanted = pd.concat(parts, ignore_index=True)
    keys = list(KEYS)
    twice = given[given.duplicated(keys)]
    if len(twice):
        raise InputRefusedError(
            f"{name} predicts {_place(twice)} more than once", "Give one prediction for each test row of each fold."
        )
    merged = wanted.merge(given[[*keys, "predicted", "low", "high"]], on=keys, how="outer", indicator=True)
    lacking, foreign = merged[merged["_merge"] == "left_only"], merged[merged["_merge"] == "right_only"]
    if len(lacking):
        raise InputRefusedError(
            f"{name} lacks {len(lacking):,} of {len(wanted):,} predictions, the first for {_place(lacking)}",
            "Predict every row that `stallscope folds` marks as test, in each of its folds.",
        )
    if len(foreign):
        raise InputRefusedError(
            f"{name} has {len(foreign):,} predictions for rows that are not tested, the first for {_place(foreign)}",
            "Make the folds anew with `stallscope folds` and the same options: the data have changed since.",
        )
    return wanted.merge(given[[*keys, "predicted", "low", "high"]], on=keys, how="left", validate="one_to_one")


def _place(rows: pd.DataFrame) -> str:
    first = rows.iloc[0]
    return ", ".join(f"{name} {int(first[name])}" for name in KEYS)


def _ours(database: Database, division: Division, progress: Progress | None) -> list[dict[str, Any]]:
    """Return the newest row of every predictor that was scored on these very rows; else score the default."""
    wanted = division.request
    tested = {int(row) for fold in division.folds for row in fold.test}
    found: dict[str, dict[str, Any]] = {}
    for stored in store.evaluations(database, str(wanted["dataset"])).to_dict("records"):
        request = stored["request"]
        same = all(request.get(name) == value for name, value in wanted.items()) and not request.get("evidence")
        if same and stored["result"]["n"] == len(tested):
            for row in stored["result"]["rows"]:
                found.setdefault(str(row["predictor"]), row)
    if DEFAULT not in found:
        made = evaluate(
            database, str(wanted["dataset"]), str(wanted["protocol"]), [DEFAULT], wanted["gpu"], wanted["train_gpus"],
            wanted["runs"], bool(wanted["include_flagged"]), progress, mechanism=wanted["mechanism"],
        )  # fmt: skip
        for row in made.rows:
            found.setdefault(str(row["predictor"]), row)
    return list(found.values())
