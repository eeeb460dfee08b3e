"""Trained models: train, list, delete, load, export; predictions for jobs come from `jobs`."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.errors import ModelRefusedError, NotEnoughDataError
from analysis.interference.decision import LIMIT
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.evaluate import LEAST_RUNS
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.folding import SAMPLED_ROWS, calibrate_by_groups
from analysis.predict.evaluate.intervals import Calibration
from analysis.predict.evaluate.selection import resolve_gpus
from analysis.predict.frame import features
from analysis.predict.frame import mechanism as onemechanism
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.models import modelfile, unanswered, untrained
from analysis.predict.models.jobs import JobPrediction, predict_jobs
from analysis.predict.models.manifest import Manifest, column_ranges, now, package_versions, schema_hash, used_columns
from analysis.predict.predictors.base import needs
from analysis.predict.predictors.ensemble import MOST_WORKLOADS, expected_seconds
from analysis.predict.predictors.registry import DEFAULT, get
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries import models as evaluations
from analysis.store.queries import models as store
from analysis.store.queries.sources import require_dataset, sources

#: The card of a model and its manifest are one thing.
ModelCard = Manifest

#: Protocols that intervals are calibrated by: jobs that the model knows, a new workload, a new family.
CALIBRATED = ("unseen-pair", "leave-one-workload-out", "leave-one-family-out")

_CACHE: OrderedDict[tuple[str, str], Any] = OrderedDict()
_CACHE_LOCK = threading.Lock()
_CACHE_SIZE = 4


def train(
    database: Database,
    dataset: str,
    predictor: str = DEFAULT,
    gpu: str | None = None,
    mechanism: str | None = None,
    progress: Progress | None = None,
    *,
    include_flagged: bool = False,
) -> ModelCard:
    """Train a predictor on a data set's measured co-runs, calibrate its intervals and store it.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.
    predictor : str
        Name of a predictor.
    gpu, mechanism : str, optional
        Restrict to one GPU, any way of writing it, and one mechanism: by default the one with the most runs.
    progress : callable, optional
        As in `evaluate.evaluate`.
    include_flagged : bool
        Keep workloads that the data checks doubt.

    Returns
    -------
    ModelCard
        The stored model's manifest.

    Raises
    ------
    NotEnoughDataError
        If the data can't carry the predictor.
    ModelRefusedError
        If the predictor is not one that may be stored.
    """
    require_dataset(database, dataset)
    available = sorted(set(coruns.gpus_and_mechanisms(database, dataset)["gpu"].astype(str)))
    gpus = resolve_gpus(gpu, available, dataset) if gpu else None
    mechanisms, notes = onemechanism.choose(database, dataset, gpus, mechanism)
    spec = get(predictor)
    frame = features.build(
        database, dataset, gpus, mechanisms, include_flagged=include_flagged, white_box=spec.white_box
    )
    if spec.white_box and frame.simulated:
        notes.append(f"{spec.title} shares its model with the simulator that made these data.")
    missing = needs(spec.make(), frame.X)
    if missing:
        raise NotEnoughDataError(f"{spec.title} can't learn from data set {dataset}, it {missing}", "Choose another.")
    cost = ""
    if spec.name == DEFAULT:
        cost = f" to {len(frame):,} members, about {expected_seconds(len(frame), len(frame.workloads)):.0f} s of a core"
        if len(frame) > SAMPLED_ROWS:
            notes.append(
                "Intervals rest on a sample: pairs, workloads and families drawn by lot among at most "
                f"{MOST_WORKLOADS} workloads were left out of {len(frame):,} members."
            )
    protocols = CALIBRATED if frame.runs >= LEAST_RUNS else ()
    (_, estimator), = execution.run(
        lambda _: spec.make().fit(frame.X, frame.y), ["fit"], _part(progress, 0.0, 0.4),
        describe=lambda _: f"fitting {spec.title}{cost}",
    )  # fmt: skip
    calibration = {
        protocols[number]: found
        for number, found in execution.run(
            lambda protocol: calibrate_by_groups(estimator, frame, protocol), protocols, _part(progress, 0.4, 1.0),
            describe=lambda protocol: f"calibrating intervals by {protocol}",
        )
    }  # fmt: skip
    payload = modelfile.to_bytes(estimator)
    manifest = _manifest(database, frame, spec.name, spec.title, spec.source, estimator, calibration, payload, notes)
    store.save(database, manifest.model_id, manifest.predictor, dataset, manifest.model_dump(mode="json"), payload)
    return manifest


def list_models(database: Database) -> list[ModelCard]:
    """Return the stored models' manifests, newest first; one that this version can't read is left out."""
    found = []
    for values in store.listing(database)["manifest"]:
        try:
            found.append(modelfile.read_manifest(values))
        except ModelRefusedError:
            continue
    return found


def card(database: Database, model_id: str) -> ModelCard:
    """Return a model's manifest.

    Raises
    ------
    NotFoundError
        If there is no such model.
    ModelRefusedError
        If its manifest doesn't fit.
    """
    if (dataset := untrained.asked_for(model_id)) is not None:
        return untrained.card(database, dataset)
    if (dataset := unanswered.asked_for(model_id)) is not None:
        return unanswered.card(database, dataset)
    return modelfile.read_manifest(store.read(database, model_id)[0])


def delete(database: Database, model_id: str) -> None:
    """Take out a model.

    Raises
    ------
    NotFoundError
        If there is no such model.
    """
    store.delete(database, model_id)


def load(database: Database, model_id: str) -> tuple[Manifest, Any]:
    """Return a model's manifest and its checked estimator; ``white-box:DATASET`` is one that needs no training.

    ``no-model:DATASET`` stands for having none: it has no figure for any set.

    Raises
    ------
    NotFoundError
        If there is no such model.
    ModelRefusedError
        If anything about it doesn't fit.
    """
    if (dataset := untrained.asked_for(model_id)) is not None:
        return untrained.card(database, dataset), untrained.estimator()
    if (dataset := unanswered.asked_for(model_id)) is not None:
        return unanswered.card(database, dataset), unanswered.Unanswered()
    values, payload = store.read(database, model_id)
    manifest = modelfile.read_manifest(values)
    key = (model_id, hashlib.sha256(payload).hexdigest())
    with _CACHE_LOCK:
        if key in _CACHE:
            _CACHE.move_to_end(key)
            return manifest, _CACHE[key]
    estimator = modelfile.from_bytes(manifest, payload)
    with _CACHE_LOCK:
        _CACHE[key] = estimator
        while len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return manifest, estimator


def export(database: Database, model_id: str) -> bytes:
    """Return a model as one file: manifest and estimator."""
    values, payload = store.read(database, model_id)
    return modelfile.pack(modelfile.read_manifest(values), payload)


def import_model(database: Database, data: bytes) -> ModelCard:
    """Store a model that was exported elsewhere, after everything about it has been checked.

    Raises
    ------
    ModelRefusedError
        If anything doesn't fit.
    """
    manifest, payload = modelfile.unpack(data)
    known = {str(name) for name in store.listing(database)["model_id"]}
    if manifest.model_id in known:
        return manifest
    store.save(
        database, manifest.model_id, manifest.predictor, manifest.dataset, manifest.model_dump(mode="json"), payload
    )
    return manifest


def predict(
    database: Database,
    model_id: str,
    gpu: str,
    jobs: Sequence[str],
    mechanism: str | None = None,
    dataset: str | None = None,
    caps: Sequence[float | None] | None = None,
    limit: float = LIMIT,
) -> list[JobPrediction]:
    """Predict every job's slowdown in a set, with interval, evidence and verdict; see `jobs.predict_jobs`."""
    manifest, estimator = load(database, model_id)
    try:
        return predict_jobs(database, manifest, estimator, gpu, jobs, mechanism, dataset, caps, limit)
    except NotEnoughDataError:
        if manifest.predictor != untrained.NAME:
            raise
        # Where the white box lacks profiles, what ran still answers.
        ran, nothing = load(database, unanswered.model_id_of(manifest.dataset))
        found = predict_jobs(database, ran, nothing, gpu, jobs, mechanism, dataset, caps, limit)
        if found[0].rests_on == "none":
            raise
        return found


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Let a step report its own fraction as a part of the whole."""
    if progress is None:
        return None
    return lambda fraction, message: progress(start + (end - start) * fraction, message)


def _manifest(
    database: Database,
    frame: TrainingFrame,
    predictor: str,
    title: str,
    source: str,
    estimator: Any,
    calibration: dict[str, Calibration | None],
    payload: bytes,
    notes: list[str],
) -> Manifest:
    columns = used_columns(estimator)
    files = sources(database, Filter(datasets=(frame.dataset,)))
    return Manifest(
        model_id=f"{predictor}-{uuid.uuid4().hex[:8]}",
        predictor=predictor,
        title=title,
        source=source,
        dataset=frame.dataset,
        simulated=frame.simulated,
        gpus=sorted(set(frame.rows["gpu"].astype(str))),
        mechanisms=sorted(set(frame.rows["mechanism"].astype(str))),
        workloads=frame.workloads,
        families=sorted({name for found in frame.rows["families"] for name in found}),
        k=sorted(int(k) for k in set(frame.rows["k"])),
        rows=len(frame),
        runs=frame.runs,
        left_out=dict(frame.left_out),
        notes=notes,
        flagged=sorted({workload for _, workload in frame.flagged}),
        data_hash=frame.data_hash(),
        schema_hash=schema_hash(frame.schema),
        columns=columns,
        ranges=column_ranges(frame, columns),
        calibration={name: None if found is None else asdict(found) for name, found in calibration.items()},
        protocol_results=_results(database, frame.dataset, predictor),
        sources=[
            {"file": str(file), "sha256": str(sha)}
            for file, sha in zip(files["file_name"], files["sha256"], strict=True)
        ],
        versions=package_versions(),
        created_at=now(),
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        payload_bytes=len(payload),
    )


def _results(database: Database, dataset: str, predictor: str) -> list[dict[str, Any]]:
    """Return this predictor's and the two references' rows of the latest comparison under each protocol."""
    found: pd.DataFrame = evaluations.evaluations(database, dataset)
    wanted = {predictor, "train-median", "no-interference"}
    rows: list[dict[str, Any]] = []
    for result in found.drop_duplicates("protocol")["result"]:
        rows += [row for row in result["rows"] if row["predictor"] in wanted]
    return rows
