"""The one engine of comparisons: every predictor, every fold, everything fitted inside the fold."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pandas as pd

from analysis.predict.evaluate import execution, protocols
from analysis.predict.evaluate.comparison import Collected, Evaluation, bootstrap_of, comparison_row, fold_predictions
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.folding import FoldTask, run_fold
from analysis.predict.evaluate.protocols import Fold
from analysis.predict.evaluate.selection import select_frame
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.registry import PREDICTORS, PredictorSpec, get
from analysis.predict.predictors.whitebox import SHARES_MODEL
from analysis.store.database import Database
from analysis.store.queries import models as store

#: Fewer measured runs than this carry no score.
LEAST_RUNS = 30


def evaluate(
    database: Database,
    dataset: str,
    protocol: str,
    predictors: Sequence[str] | None = None,
    gpu: str | None = None,
    train_gpus: Sequence[str] | None = None,
    runs: int | None = None,
    include_flagged: bool = False,
    progress: Progress | None = None,
    *,
    mechanism: str | None = None,
    n_jobs: int = 1,
    backend: Callable[[], AbstractContextManager[Any]] | None = None,
    evidence: Sequence[str] | None = None,
    save: bool = True,
    least_runs: int = LEAST_RUNS,
    calibrate: bool = True,
) -> Evaluation:
    """Compare predictors on a data set's measured co-runs.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.
    protocol : str
        A name of `protocols.PROTOCOLS`.
    predictors : sequence of str, optional
        Names of `registry.PREDICTORS` or ``package.module:Class``; all by default. The reference predictors
        ``no-interference`` and ``train-median`` are always there.
    gpu : str, optional
        GPU to evaluate on, any way of writing it; for ``unseen-gpu`` the GPU to test on.
    train_gpus : sequence of str, optional
        For ``unseen-gpu``.
    runs : int, optional
        For ``few-shot``: measured runs of the new family; 10 by default.
    include_flagged : bool
        Keep workloads that the data checks doubt.
    progress : callable, optional
        Called at least twice a second with the fraction done and a message; may raise to cancel.
    mechanism : str, optional
        One mechanism; by default the one with the most runs. Mechanisms are never pooled.
    n_jobs : int
        Folds at a time.
    backend : callable, optional
        A joblib backend context, to run the folds on a cluster.
    evidence : sequence of str, optional
        Kinds of features that predictors may see, of `selection.EVIDENCE`; all by default.
    save : bool
        Store the comparison with its out-of-fold predictions.
    least_runs : int
        Fewer tested runs carry no score.
    calibrate : bool
        Make intervals, for the predictors that have them; they take most of the time.

    Returns
    -------
    Evaluation
        Rows in the order of the registry.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    NotEnoughDataError
        If the rows can't be divided by the protocol.
    UsageError
        If a name is unknown.
    """
    started = time.perf_counter()
    specs = _specs(predictors)
    shots = 10 if runs is None else runs
    selected = select_frame(
        database, dataset, protocol, gpu, train_gpus, mechanism, include_flagged,
        white_box=any(spec.white_box for spec in specs), evidence=evidence,
    )  # fmt: skip
    frame, test_gpu, from_gpus = selected.frame, selected.test_gpu, selected.train_gpus
    chosen = protocols.prepare(frame, protocol)
    folds = protocols.folds(chosen, protocol, gpu=test_gpu, train_gpus=from_gpus, runs=shots)
    tested = np.unique(np.concatenate([fold.test for fold in folds]))
    about = chosen.take(tested)
    request = {
        "dataset": dataset, "protocol": protocol, "predictors": [spec.name for spec in specs], "gpu": gpu,
        "train_gpus": list(train_gpus) if train_gpus else None, "runs": runs, "include_flagged": include_flagged,
        "mechanism": mechanism, "evidence": list(evidence) if evidence else None,
    }  # fmt: skip
    enough = about.runs >= least_runs
    status = {
        spec.name: _status(spec, protocol, chosen) if enough
        else f"needs: {least_runs} measured runs (there are {about.runs}, {least_runs - about.runs} are missing)"
        for spec in specs
    }  # fmt: skip
    running = [spec for spec in specs if status[spec.name] == "ok"]
    collected = _run(running, chosen, folds, protocol, shots, progress, n_jobs, backend, calibrate)
    status |= {name: found.failure for name, found in collected.items() if found.failure}
    collected = {name: found for name, found in collected.items() if not found.failure}
    bootstrap = bootstrap_of(about, chosen, folds)
    rows = [
        comparison_row(spec, protocol, status[spec.name], collected.get(spec.name), len(folds), bootstrap)
        for spec in specs
    ]
    median = next((row["mape"] for row in rows if row["predictor"] == "train-median"), None)
    for row in rows:
        if row["mape"] is not None and median:
            row["skill"] = 1.0 - row["mape"] / median
    parts = [part for name in collected for _, part in sorted(collected[name].parts.items())]
    predictions = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(store.PREDICTION_COLUMNS))
    left_out = dict(frame.left_out)
    if len(about) < len(frame) and protocol != "unseen-gpu":
        left_out["not tested by this protocol"] = len(frame) - len(about)
    result = Evaluation(
        evaluation_id=uuid.uuid4().hex[:12],
        dataset=dataset,
        protocol=protocol,
        sentence=protocols.PROTOCOLS[protocol],
        rows=rows,
        predictions=predictions,
        n=len(about),
        runs=about.runs,
        workloads=len(about.workloads),
        gpus=sorted(set(about.rows["gpu"].astype(str))),
        mechanisms=sorted(set(about.rows["mechanism"].astype(str))),
        left_out=left_out,
        flagged=sorted({workload for _, workload in frame.flagged}),
        simulated=frame.simulated,
        leaky=protocol in protocols.LEAKY,
        notes=[
            *selected.notes,
            *([f"Predictors see {' and '.join(evidence)} alone, beside the configuration."] if evidence else []),
            *_shared(specs, frame.own_model),
        ],
        request=request,
        seconds=time.perf_counter() - started,
    )
    if save:
        store.save_evaluation(
            database, result.evaluation_id, dataset, protocol, request, result.summary(), result.predictions
        )
    return result


def _specs(predictors: Sequence[str] | None) -> list[PredictorSpec]:
    if not predictors:
        return list(PREDICTORS.values())
    always = ("no-interference", "train-median")
    asked = [get(name) for name in dict.fromkeys(predictors) if name not in always]
    return [*(PREDICTORS[name] for name in always), *asked]


def _status(spec: PredictorSpec, protocol: str, frame: TrainingFrame) -> str:
    if spec.protocols and protocol not in spec.protocols:
        return f"needs: protocol {' or '.join(spec.protocols)}"
    lacking = needs(spec.make(), frame.X)
    if lacking is None and spec.white_box and frame.own_model:
        return SHARES_MODEL
    return lacking or "ok"


def _shared(specs: Sequence[PredictorSpec], own_model: bool) -> list[str]:
    """Say why predictors of the simulator's own model have no figure on what it made."""
    titles = [spec.title for spec in specs if spec.white_box]
    if not (own_model and titles):
        return []
    return [
        f"{' and '.join(titles)}: the queueing model behind it made these simulated data, so an error here would say "
        "nothing about hardware. It has no figure and no rank."
    ]


def _run(
    specs: Sequence[PredictorSpec],
    frame: TrainingFrame,
    folds: Sequence[Fold],
    protocol: str,
    runs: int,
    progress: Progress | None,
    n_jobs: int,
    backend: Callable[[], AbstractContextManager[Any]] | None,
    calibrate: bool,
) -> dict[str, Collected]:
    tasks = [
        FoldTask(spec.name, spec.make(), frame, fold, protocol, spec.calibrate and calibrate, runs)
        for spec in specs
        for fold in folds
    ]
    collected = {spec.name: Collected() for spec in specs}
    for number, result in execution.run(run_fold, tasks, progress, n_jobs=n_jobs, backend=backend):
        task = tasks[number]
        into = collected[task.predictor]
        if result.failure:
            into.failure = f"failed: {task.fold.label}: {result.failure}"
            continue
        into.parts[number] = fold_predictions(task, result)
        into.fit_seconds += result.fit_seconds
        into.predict_seconds += result.predict_seconds
        if result.calibration is not None:
            into.calibrations.append(result.calibration)
    return collected
