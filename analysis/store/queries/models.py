"""Trained models: a manifest as JSON and the estimator's bytes, written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.errors import NotFoundError
from analysis.store.database import Database


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
