"""Models: what is stored, what is refused, and what a prediction may claim."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import zipfile
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LinearRegression

from analysis.errors import ModelRefusedError, NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.memory import memory_fit
from analysis.predict.models import modelfile, models
from analysis.predict.models.evidence import evidence_of
from analysis.predict.models.manifest import Manifest
from analysis.predict.predictors import learners
from analysis.predict.predictors.closed_form import TrainMedian
from analysis.predict.predictors.registry import PREDICTORS
from analysis.store.database import Database
from analysis.store.queries import models as store
from tests.predict.conftest import WORKLOADS, make

PAIR = ["alpha-b8", "gamma-b8"]


@pytest.fixture(scope="module")
def trained(shared_syn: Database) -> Manifest:
    return models.train(shared_syn, "syn", "ridge")


def test_a_model_knows_what_it_learned_from(shared_syn: Database, trained: Manifest) -> None:
    assert trained.predictor == "ridge"
    assert (trained.dataset, trained.gpus, trained.mechanisms) == ("syn", ["V100-32GB"], ["CUDA MPS"])
    assert (trained.rows, trained.runs, trained.k) == (180, 75, [2, 3])
    assert trained.families == ["alpha", "beta", "delta", "gamma"]
    assert trained.sources[0]["sha256"] == "syn-V100-32GB-CUDA MPS-False"
    assert set(trained.calibration) == {"unseen-pair", "leave-one-workload-out", "leave-one-family-out"}
    assert trained.calibration["leave-one-family-out"]["groups"] == 4
    assert trained.ranges["own_sm_util"] == (pytest.approx(0.2), pytest.approx(0.95))
    assert trained in models.list_models(shared_syn)
    assert models.card(shared_syn, trained.model_id) == trained


def test_a_stored_model_predicts_as_it_did(shared_syn: Database, trained: Manifest) -> None:
    from analysis.predict.frame import features

    _, estimator = models.load(shared_syn, trained.model_id)
    frame = features.build(shared_syn, "syn")
    again = PREDICTORS["ridge"].make().fit(frame.X, frame.y)
    assert estimator.predict(frame.X) == pytest.approx(again.predict(frame.X), abs=1e-12)


def test_known_jobs_get_an_interval_by_unseen_pairs(shared_syn: Database, trained: Manifest) -> None:
    one, two = models.predict(shared_syn, trained.model_id, "V100", PAIR)
    assert (one.workload, two.workload) == tuple(PAIR)
    assert one.co_workloads == ("gamma-b8",)
    assert one.low < one.slowdown < one.high
    assert (one.coverage, one.calibrated_by) == (90.0, "unseen-pair")
    assert one.memory == "fits"
    assert one.evidence == "measured"
    assert one.measured == pytest.approx(1 + 0.5 * 0.5 + 0.25 * np.log1p(0.95 * 300 / 90))
    assert not one.extrapolating


def test_another_gpu_mechanism_or_size_is_extrapolating_and_has_no_interval(
    shared_syn: Database, trained: Manifest
) -> None:
    for gpu, mechanism, words in (("A100-40GB", None, "not A100-40GB"), ("V100", "MIG", "not MIG")):
        one, _ = models.predict(shared_syn, trained.model_id, gpu, PAIR, mechanism)
        assert one.extrapolating
        assert any(words in reason for reason in one.reasons)
        assert one.low is one.high is one.coverage is None
        assert one.verdict == "measure first"
    four = models.predict(shared_syn, trained.model_id, "V100", [*PAIR, "beta-b2", "beta-b2"])
    assert any("not of 4" in reason for reason in four[0].reasons)


def test_uploaded_jobs_of_another_data_set(tmp_path) -> None:
    """Two profiles that were never co-run: S, what is missing, and neither an interval nor a word of sharing."""
    with Database(tmp_path / "own.duckdb") as database:
        make(database)
        model = models.train(database, "syn", "ridge")
        make(database, dataset="own", names=["delta-b4", "delta-b16"], gpu="P100")
        with database.write() as cursor:
            cursor.execute("UPDATE workload SET name = 'mine-' || name WHERE dataset = 'own'")
            cursor.execute("DELETE FROM member WHERE source_id = 2")
            cursor.execute("UPDATE solo SET peak_memory_mib = NULL WHERE source_id = 2")
        found = models.predict(database, model.model_id, "P100", ["mine-delta-b4", "mine-delta-b16"])
    for job in found:
        assert job.slowdown > 0
        assert job.low is None
        assert job.memory == "unknown"
        assert job.verdict == "measure first"
        assert job.evidence == "counters"
        assert job.extrapolating
        assert any("data set own" in reason for reason in job.reasons)
        assert any(text.startswith("peak memory") for text in job.missing)
        assert any("co-run" in text for text in job.missing)


def test_what_can_not_be_predicted_is_said(shared_syn: Database, trained: Manifest) -> None:
    with pytest.raises(NotFoundError, match="no workload 'nobody'"):
        models.predict(shared_syn, trained.model_id, "V100", ["alpha-b2", "nobody"])
    with pytest.raises(UsageError, match="at least two jobs"):
        models.predict(shared_syn, trained.model_id, "V100", ["alpha-b2"])
    with pytest.raises(NotFoundError, match="no model 'none'"):
        models.predict(shared_syn, "none", "V100", PAIR)
    with pytest.raises(NotEnoughDataError, match="needs: stall profiles"):
        models.train(shared_syn, "syn", "boosting-stalls")


def test_too_few_runs_give_a_model_without_intervals(database: Database) -> None:
    make(database, names=[row[0] for row in WORKLOADS[:5]])
    model = models.train(database, "syn", "ridge")
    assert model.calibration == {}
    job = models.predict(database, model.model_id, "V100", ["alpha-b2", "beta-b2"])[0]
    assert job.low is None


def test_deleted_is_gone(database: Database) -> None:
    make(database)
    model = models.train(database, "syn", "train-median")
    models.delete(database, model.model_id)
    assert models.list_models(database) == []
    with pytest.raises(NotFoundError):
        models.load(database, model.model_id)


def test_a_model_travels_as_one_file(shared_syn: Database, trained: Manifest, tmp_path) -> None:
    data = models.export(shared_syn, trained.model_id)
    with Database(tmp_path / "other.duckdb") as other:
        assert models.import_model(other, data) == trained
        assert models.import_model(other, data) == trained  # twice is once
        assert len(models.list_models(other)) == 1


class _Evil:
    ran: ClassVar[list[int]] = []

    def __reduce__(self):
        return (_Evil.ran.append, (1,))


def _tampered(manifest: Manifest, payload: bytes, **changes: object) -> tuple[Manifest, bytes]:
    values = manifest.model_dump(mode="json") | {"payload_sha256": hashlib.sha256(payload).hexdigest()} | changes
    return Manifest.model_validate(values), payload


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"payload_sha256": "0" * 64}, "damaged"),
        ({"format": 99}, "manifest format 99"),
        ({"schema_hash": "another"}, "another feature schema"),
        ({"versions": {"scikit-learn": "0.1.0"}}, "scikit-learn 0.1"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    shared_syn: Database, trained: Manifest, changes: dict[str, object], match: str
) -> None:
    _, payload = store.read(shared_syn, trained.model_id)
    with pytest.raises(ModelRefusedError, match=match) as refused:
        modelfile.from_bytes(*_tampered(trained, payload, **changes))
    assert refused.value.sentence.count("\n") == 0


def test_pickle_is_never_read(trained: Manifest) -> None:
    _Evil.ran.clear()
    with pytest.raises(ModelRefusedError, match="can't be read"):
        modelfile.from_bytes(*_tampered(trained, pickle.dumps(_Evil())))
    assert _Evil.ran == []


def test_types_outside_the_list_are_refused(trained: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = skops.io.dumps({"model": TrainMedian(), "strange": Database})
    with pytest.raises(ModelRefusedError, match="not allowed"):
        modelfile.from_bytes(*_tampered(trained, payload))

    class Mine(LinearRegression):
        pass

    with pytest.raises(ModelRefusedError, match="may not"):
        modelfile.to_bytes(Mine().fit(np.eye(2), [0.0, 1.0]))
    monkeypatch.setattr(modelfile, "MAX_BYTES", 10)
    with pytest.raises(ModelRefusedError, match="larger than"):
        modelfile.from_bytes(*_tampered(trained, payload))


def test_a_zip_bomb_is_refused(trained: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "0" * 200_000)
    monkeypatch.setattr(modelfile, "MAX_UNPACKED_BYTES", 100_000)
    with pytest.raises(ModelRefusedError, match="unpacks to more"):
        modelfile.from_bytes(*_tampered(trained, buffer.getvalue()))


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_model_is_refused(database: Database, data: bytes) -> None:
    with pytest.raises(ModelRefusedError, match="no model of StallScope"):
        models.import_model(database, data)


def test_a_manifest_with_strange_fields_is_refused(trained: Manifest) -> None:
    with pytest.raises(ModelRefusedError, match="surprise"):
        modelfile.read_manifest(trained.model_dump(mode="json") | {"surprise": 1})
    with pytest.raises(ModelRefusedError, match="rows"):
        modelfile.read_manifest({**trained.model_dump(mode="json"), "rows": "many"})
    json.dumps(trained.model_dump(mode="json"))


def test_every_stored_predictor_is_on_the_list(shared_syn: Database) -> None:
    from analysis.predict.frame import features
    from analysis.predict.predictors.base import needs

    frame = features.build(shared_syn, "syn")
    for name in ("no-interference", "train-median", "equal-share", "sm-sum", "roofline-sum", "effects", "low-rank-2",
                 "additive-pairs", "copy-gpu", "knn", "ridge", "svr", "mlp"):  # fmt: skip
        assert needs(PREDICTORS[name].make(), frame.X) is None
        assert modelfile.to_bytes(PREDICTORS[name].make().fit(frame.X, frame.y))
    # With a single column and many rows scikit-learn would index the rows in a tree, whose arrays no model file holds.
    nearest = learners.Neighbours().make_model().fit(np.arange(200.0)[:, None], np.arange(200.0))
    assert modelfile.to_bytes(nearest)


def test_memory_fit_by_hand() -> None:
    smi = ["nvidia-smi", "nvidia-smi"]
    assert memory_fit([8000, 8000], smi, 32768) == "fits"
    assert memory_fit([15000, 15000], smi, 32768) == "tight"
    assert memory_fit([20000, 20000], smi, 32768) == "does_not_fit"
    assert memory_fit([np.nan, 100], smi, 32768) == "unknown"
    assert memory_fit([100, 100], smi, float("nan")) == "unknown"
    assert memory_fit([40000, np.nan], smi, 32768) == "does_not_fit"
    # reserved memory leaves out the context of each process
    assert memory_fit([14500, 14500], ["reserved", "reserved"], 32768) == "tight"
    assert memory_fit([14500, 14500], smi, 32768) == "fits"


@pytest.mark.parametrize(
    ("known", "tier"),
    [
        ({}, "none"),
        ({"warp_cycles_per_issue": 12.0}, "counters"),  # how long warps wait doesn't say what for
        ({"warp_cycles_per_issue": 12.0, "stall_memory_wait": 0.4}, "stalls"),
    ],
)
def test_evidence_is_what_the_profile_holds(known: dict[str, float], tier: str) -> None:
    assert evidence_of(pd.Series({"stall_memory_wait": np.nan, "kernel_length": np.nan} | known)) == tier


def test_sources_of_profiles_are_traced(shared_syn: Database) -> None:
    listed = store.listing(shared_syn)
    assert isinstance(listed, pd.DataFrame)
    assert {"model_id", "predictor", "dataset", "created_at", "manifest", "bytes"} == set(listed.columns)


def test_the_default_predictor_end_to_end(syn: Database) -> None:
    """Train, store, load, predict and explain with what every user gets first."""
    from analysis.predict.explain import explain

    model = models.train(syn, "syn")
    assert model.predictor == "stallscope"
    assert "own_sm_util" in model.columns
    jobs = ["alpha-b8", "gamma-b8", "delta-b4"]
    found = models.predict(syn, model.model_id, "V100", jobs)
    assert all(job.low < job.slowdown < job.high for job in found)
    explained = explain.explain(syn, model.model_id, "V100", jobs)
    assert [one.slowdown for one in explained] == pytest.approx([job.slowdown for job in found])
    assert max(one.additivity_error for one in explained) < 1e-9
