"""What jobs side by side pay: as measured where they were co-run, else as a model predicts it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.errors import StallScopeError
from analysis.interference.matrix import DID_NOT_RUN, NOT_MEASURED, slowdown_matrix
from analysis.numbers import slowdown as times
from analysis.predict.models import models
from analysis.reference.origin import word
from analysis.store.database import Database
from analysis.store.queries import coruns

COLUMNS = [
    "workload", "beside", "slowdown", "low", "high", "origin", "runs", "mechanism", "model", "simulated",
]  # fmt: skip

#: What a slowdown rests on.
MEASURED, PREDICTED, FAILED, NOTHING = "measured", "predicted", "did not run", "not known"


def pairwise(database: Database, dataset: str, gpu: str, jobs: Sequence[str]) -> pd.DataFrame:
    """Return what each job pays beside each other one.

    Parameters
    ----------
    database : Database
        The open database.
    dataset, gpu : str
        Where they are, as stored.
    jobs : sequence of str
        Workloads.

    Returns
    -------
    pd.DataFrame
        One row an ordered pair: workload, beside, slowdown, low and high (smallest and largest of repeats, or the ends
        of the prediction's interval), origin (``measured``, ``predicted``, ``did not run``, ``not known``), runs,
        mechanism, model, simulated. A prediction stands only where nothing was measured.
    """
    measured = coruns.gpus_and_mechanisms(database, dataset)
    matrix = slowdown_matrix(database, dataset, gpu) if gpu in set(measured["gpu"].astype(str)) else None
    model = next((card for card in models.list_models(database) if card.dataset == dataset and gpu in card.gpus), None)
    rows: list[dict[str, Any]] = []
    for pair in itertools.combinations(dict.fromkeys(jobs), 2):
        predicted: dict[str, dict[str, Any]] | None = None
        for workload, beside in (pair, pair[::-1]):
            row = {**dict.fromkeys(COLUMNS), "workload": workload, "beside": beside, "origin": NOTHING, "runs": 0}
            row.update(slowdown=math.nan, low=math.nan, high=math.nan, simulated=False)
            if matrix is not None and {workload, beside} <= set(matrix.workloads):
                cell = matrix.workloads.index(workload), matrix.workloads.index(beside)
                row.update(mechanism=matrix.mechanism, simulated=matrix.simulated)
                if matrix.state[cell] == DID_NOT_RUN:
                    row["origin"] = FAILED
                elif matrix.state[cell] != NOT_MEASURED and not math.isnan(matrix.slowdown[cell]):
                    row.update(
                        slowdown=float(matrix.slowdown[cell]), low=float(matrix.low[cell]),
                        high=float(matrix.high[cell]), origin=MEASURED, runs=int(matrix.runs[cell]),
                    )  # fmt: skip
            if row["origin"] == NOTHING and model is not None:
                predicted = _predicted(database, model.model_id, gpu, pair) if predicted is None else predicted
                row.update(predicted.get(workload, {}))
                row["simulated"] = model.simulated if row["origin"] == PREDICTED else row["simulated"]
            rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


def sentence(pairs: pd.DataFrame) -> str:
    """Say what the first two jobs pay, and where the figure comes from."""
    if pairs.empty:
        return ""
    first = pairs.iloc[:2].to_dict("records")
    origin = str(first[0]["origin"])
    if origin == FAILED:
        return "They were tried together and did not run: mostly this means that they do not fit into memory."
    if origin not in (MEASURED, PREDICTED):
        return (
            "What they cost each other is not known: they were not co-run here, and no model of this data set and GPU "
            "can predict it."
        )
    said = "; ".join(f"{row['workload']} takes {times(float(row['slowdown']))} as long" for row in first)
    simulated = bool(first[0]["simulated"])
    how = f"{word(simulated)} under {first[0]['mechanism']}"
    if origin == PREDICTED:
        how = f"predicted by {first[0]['model']}" + (", from simulated co-runs" if simulated else "")
    return f"Together, {how}: {said}."


def _predicted(database: Database, model_id: str, gpu: str, pair: tuple[str, str]) -> dict[str, dict[str, Any]]:
    try:
        found = models.predict(database, model_id, gpu, list(pair))
    except StallScopeError:  # a job that the model's inputs don't cover has no prediction, which is an answer
        return {}
    return {
        one.workload: {
            "slowdown": one.slowdown, "low": math.nan if one.low is None else one.low,
            "high": math.nan if one.high is None else one.high, "origin": PREDICTED, "model": model_id,
        }
        for one in found
    }  # fmt: skip
