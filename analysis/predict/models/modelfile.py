"""Estimators as bytes and back, with skops: a fixed list of types, a size limit, and never pickle."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from typing import Any

import skops.io
from pydantic import ValidationError

from analysis.errors import ModelRefusedError
from analysis.predict.frame.terms import schema
from analysis.predict.models.manifest import FORMAT, Manifest, package_versions, schema_hash
from analysis.predict.models.validators import allowed, check
from analysis.predict.predictors.registry import storable

#: Largest model file, as stored and unpacked.
MAX_BYTES = 128 * 2**20
MAX_UNPACKED_BYTES = 1024 * 2**20

#: Modules that stood beside their room when a model was stored by an earlier version.
_MOVED = frozenset((
    "closed_form", "published", "effects", "learners", "ensemble", "whitebox", "structured", "pairgp", "pairprofiles",
    "profilescale",
))  # fmt: skip
#: Modules as model files name them: by the package's name in a checkout, or the one that the wheel gives it.
_MODULE = re.compile(r'"(?:analysis|stallscope)\.predict\.([\w.]+)"')
_PACKAGE = __name__.partition(".")[0]
_SCHEMA = "schema.json"

_TRAIN_AGAIN = "Train the model again with this version of StallScope."


def to_bytes(estimator: Any) -> bytes:
    """Write a fitted estimator.

    Raises
    ------
    ModelRefusedError
        If it holds types that may not be stored, or is too large.
    """
    payload = bytes(skops.io.dumps(estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1))
    strange = _strange(payload)
    if strange:
        raise ModelRefusedError(
            f"the predictor holds types that a model file may not: {', '.join(strange)}",
            "It can be evaluated; train one of StallScope's own predictors to store a model.",
        )
    check(estimator)
    if len(payload) > MAX_BYTES:
        raise ModelRefusedError(
            f"the model has {len(payload) / 2**20:.0f} MiB, more than the {MAX_BYTES // 2**20} MiB that are stored",
            "Train it on fewer rows.",
        )
    return payload


def from_bytes(manifest: Manifest, payload: bytes) -> Any:
    """Read an estimator after everything about it has been checked.

    Raises
    ------
    ModelRefusedError
        If size, hash, format, schema, versions or types don't fit; one sentence says which.
    """
    _check_manifest(manifest)
    if len(payload) > MAX_BYTES:
        raise ModelRefusedError(f"the model file is larger than {MAX_BYTES // 2**20} MiB", _TRAIN_AGAIN)
    if hashlib.sha256(payload).hexdigest() != manifest.payload_sha256:
        raise ModelRefusedError("the model file is damaged: its hash is not that of its manifest", _TRAIN_AGAIN)
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        small = unpacked <= MAX_UNPACKED_BYTES
        payload = _brought_forward(payload) if small else payload
        strange = _strange(payload) if small else []
        loaded = skops.io.loads(payload, trusted=sorted(storable())) if small and not strange else None
    except Exception as error:
        detail = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelRefusedError(f"the model file can't be read ({detail})", _TRAIN_AGAIN) from error
    if unpacked > MAX_UNPACKED_BYTES:
        raise ModelRefusedError(f"the model file unpacks to more than {MAX_UNPACKED_BYTES // 2**20} MiB", _TRAIN_AGAIN)
    if strange:
        raise ModelRefusedError(f"the model file holds types that are not allowed: {', '.join(strange)}", _TRAIN_AGAIN)
    check(loaded)
    return loaded


def _strange(payload: bytes) -> list[str]:
    """Return the types of a file that may not be read: those that skops does not trust, and those without a check."""
    untrusted = set(skops.io.get_untrusted_types(data=payload)) - storable()
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        return sorted(untrusted | set(allowed(json.loads(archive.read(_SCHEMA)))))


def _brought_forward(payload: bytes) -> bytes:
    """Return the file with classes named by the modules in which they stand now."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        text = archive.read(_SCHEMA).decode()
        moved = _MODULE.sub(_named_now, text)
        if moved == text:
            return payload
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as changed:
            for entry in archive.infolist():
                changed.writestr(entry, moved if entry.filename == _SCHEMA else archive.read(entry))
    return buffer.getvalue()


def _named_now(found: re.Match[str]) -> str:
    room = "predictors." if found[1] in _MOVED else ""
    return f'"{_PACKAGE}.predict.{room}{found[1]}"'


def read_manifest(values: Any) -> Manifest:
    """Read a manifest from its JSON values.

    Raises
    ------
    ModelRefusedError
        If fields are missing, unknown or of a wrong kind.
    """
    try:
        return Manifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise ModelRefusedError(f"the model's manifest does not fit: {field}: {first['msg']}", _TRAIN_AGAIN) from error


def pack(manifest: Manifest, payload: bytes) -> bytes:
    """Return a model for download: a zip with ``manifest.json`` and ``model.skops``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("manifest.json", manifest.model_dump_json(indent=2))
        archive.writestr("model.skops", payload)
    return buffer.getvalue()


def unpack(data: bytes) -> tuple[Manifest, bytes]:
    """Read what `pack` wrote, and check it.

    Raises
    ------
    ModelRefusedError
        If it is no such file, or its content doesn't fit.
    """
    if len(data) > MAX_BYTES + 2**20:
        raise ModelRefusedError(f"the model file is larger than {MAX_BYTES // 2**20} MiB", _TRAIN_AGAIN)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            if set(sizes) != {"manifest.json", "model.skops"} or sum(sizes.values()) > MAX_BYTES + 2**24:
                raise ModelRefusedError("the file is no model of StallScope", "Choose a file that StallScope exported.")
            manifest = read_manifest(json.loads(archive.read("manifest.json")))
            payload = archive.read("model.skops")
    except (zipfile.BadZipFile, KeyError, ValueError, UnicodeDecodeError) as error:
        raise ModelRefusedError(
            "the file is no model of StallScope", "Choose a file that StallScope exported."
        ) from error
    from_bytes(manifest, payload)
    return manifest, payload


def _check_manifest(manifest: Manifest) -> None:
    if manifest.format != FORMAT:
        raise ModelRefusedError(
            f"the model has manifest format {manifest.format}, this StallScope reads {FORMAT}", _TRAIN_AGAIN
        )
    if manifest.schema_hash != schema_hash(schema()):
        raise ModelRefusedError("the model was trained on another feature schema", _TRAIN_AGAIN)
    here, there = _minor(package_versions()["scikit-learn"]), _minor(manifest.versions.get("scikit-learn", "unknown"))
    if here != there:
        raise ModelRefusedError(f"the model was written with scikit-learn {there}, this is {here}", _TRAIN_AGAIN)


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])
