"""Trained models: a manifest as JSON and the estimator's bytes, written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.errors import NotFoundError
from analysis.store.database import Database
from analysis.store.queries import exclusions


def save(
    database: Database, model_id: str, predictor: str, dataset: str, manifest: Mapping[str, Any], payload: bytes
) -> None:
    """Write a model.

    Parameters
    ----------
    database : Database
        The open database.
    model_id, predictor, dataset : str
        Its id, the predictor's name, and the data set it learned from.
    manifest : mapping
        Plain values only.
    payload : bytes
        The estimator, as skops wrote it.
    """
    with database.write() as cursor:
        cursor.execute(
            "INSERT INTO model (model_id, predictor, dataset, manifest, payload) VALUES (?, ?, ?, ?, ?)",
            [model_id, predictor, dataset, json.dumps(dict(manifest)), payload],
        )


def listing(database: Database) -> pd.DataFrame:
    """Return one row a model, newest first: model_id, predictor, dataset, created_at, manifest (dict), bytes."""
    found = database.query(
        """SELECT model_id, predictor, dataset, created_at, manifest, octet_length(payload) AS bytes FROM model
           ORDER BY created_at DESC, model_id"""
    )
    found["manifest"] = [json.loads(text) for text in found["manifest"]]
    return found


def read(database: Database, model_id: str) -> tuple[dict[str, Any], bytes]:
    """Return a model's manifest and its bytes.

    Raises
    ------
    NotFoundError
        If there is no such model.
    """
    found = database.query("SELECT manifest, payload FROM model WHERE model_id = ?", [model_id])
    if found.empty:
        known = ", ".join(str(name) for name in database.query("SELECT model_id FROM model ORDER BY 1")["model_id"])
        raise NotFoundError(
            f"there is no model {model_id!r} (trained: {known or 'none yet'})",
            "Train one with `stallscope train`, or choose one of the list.",
        )
    return json.loads(found["manifest"].iloc[0]), bytes(found["payload"].iloc[0])


def delete(database: Database, model_id: str) -> None:
    """Take out a model.

    Raises
    ------
    NotFoundError
        If there is no such model.
    """
    read(database, model_id)
    with database.write() as cursor:
        cursor.execute("DELETE FROM model WHERE model_id = ?", [model_id])


#: Columns of a prediction, in the order of the table, without the ids of what made it.
PREDICTION_COLUMNS = (
    "predictor", "seed", "fold", "run_id", "slot", "workload", "co_workloads", "gpu", "mechanism", "measured",
    "predicted", "low", "high",
)  # fmt: skip

_TYPES = pa.schema(
    [
        ("predictor", pa.string()), ("seed", pa.int32()), ("fold", pa.int32()), ("run_id", pa.int32()),
        ("slot", pa.int32()), ("workload", pa.string()), ("co_workloads", pa.list_(pa.string())), ("gpu", pa.string()),
        ("mechanism", pa.string()), ("measured", pa.float64()), ("predicted", pa.float64()), ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)  # fmt: skip


def save_evaluation(
    database: Database,
    evaluation_id: str,
    dataset: str,
    protocol: str,
    request: Mapping[str, Any],
    result: Mapping[str, Any],
    predictions: pd.DataFrame,
) -> None:
    """Write an evaluation and its out-of-fold predictions, in one transaction.

    Parameters
    ----------
    database : Database
        The open database.
    evaluation_id, dataset, protocol : str
        Its id and what it is about.
    request, result : mapping
        What was asked for, and the comparison; plain values only.
    predictions : pd.DataFrame
        Columns `PREDICTION_COLUMNS`; low and high are NaN without an interval.
    """
    table = _table(predictions)
    with database.write() as cursor:
        cursor.execute(
            "INSERT INTO evaluation (evaluation_id, dataset, protocol, request, result) VALUES (?, ?, ?, ?, ?)",
            [evaluation_id, dataset, protocol, json.dumps(dict(request)), json.dumps(dict(result))],
        )
        cursor.register("incoming", table)
        names = ", ".join(PREDICTION_COLUMNS)
        cursor.execute(
            f"INSERT INTO prediction (evaluation_id, {names}) SELECT ?, {names} FROM incoming", [evaluation_id]
        )
        cursor.unregister("incoming")


def evaluations(database: Database, dataset: str | None = None) -> pd.DataFrame:
    """Return one row an evaluation, newest first: evaluation_id, dataset, protocol, created_at, request, result."""
    found = database.query(
        """SELECT evaluation_id, dataset, protocol, created_at, request, result FROM evaluation
           WHERE ? IS NULL OR dataset = ? ORDER BY created_at DESC, evaluation_id""",
        [dataset, dataset],
    )
    for column in ("request", "result"):
        found[column] = [json.loads(text) for text in found[column]]
    for made in found.to_dict("records"):
        _note(database, made)
    return found


def evaluation(database: Database, evaluation_id: str) -> dict[str, Any]:
    """Return one evaluation as a dictionary with the keys of `evaluations`.

    Raises
    ------
    NotFoundError
        If there is no such evaluation.
    """
    found = database.query(
        "SELECT evaluation_id, dataset, protocol, created_at, request, result FROM evaluation WHERE evaluation_id = ?",
        [evaluation_id],
    )
    if found.empty:
        raise NotFoundError(f"there is no evaluation {evaluation_id!r}", "Run it again, or choose one of the list.")
    row: dict[str, Any] = {str(name): value for name, value in found.iloc[0].items()}
    made = {**row, "request": json.loads(row["request"]), "result": json.loads(row["result"])}
    _note(database, made)
    return made


def predictions(database: Database, evaluation_id: str, predictor: str | None = None) -> pd.DataFrame:
    """Return the out-of-fold predictions of an evaluation: `PREDICTION_COLUMNS`."""
    return database.query(
        f"""SELECT {", ".join(PREDICTION_COLUMNS)} FROM prediction
            WHERE evaluation_id = ? AND (? IS NULL OR predictor = ?) ORDER BY predictor, seed, fold, run_id, slot""",
        [evaluation_id, predictor, predictor],
    )


def delete_evaluation(database: Database, evaluation_id: str) -> None:
    """Take out an evaluation with its predictions.

    Raises
    ------
    NotFoundError
        If there is no such evaluation.
    """
    evaluation(database, evaluation_id)
    with database.write() as cursor:
        cursor.execute("DELETE FROM prediction WHERE evaluation_id = ?", [evaluation_id])
        cursor.execute("DELETE FROM evaluation WHERE evaluation_id = ?", [evaluation_id])


def _note(database: Database, made: Mapping[Any, Any]) -> None:
    """Add to a stored comparison's notes what the user decided about its rows since."""
    result = made["result"]
    since = exclusions.changed_since(database, made["dataset"], made["created_at"], result.get("left_out") or {})
    if since:
        result["notes"] = [*(result.get("notes") or []), since]


def _table(predictions: pd.DataFrame) -> pa.Table:
    columns = {
        name: [list(value) for value in predictions[name]] if name == "co_workloads" else predictions[name]
        for name in PREDICTION_COLUMNS
    }
    arrays = [pa.array(columns[name], type=_TYPES.field(name).type, from_pandas=True) for name in PREDICTION_COLUMNS]
    return pa.Table.from_arrays(arrays, schema=_TYPES)
