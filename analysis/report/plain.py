"""Turns what the engine returns into plain JSON values: numpy, pandas, pydantic and dataclasses alike."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pydantic import BaseModel

Plain: TypeAlias = bool | int | float | str | list["Plain"] | dict[str, "Plain"] | None


def plain(value: Any) -> Plain:
    """Convert a value for JSON.

    Parameters
    ----------
    value : object
        Scalars, containers, arrays (n-dimensional become nested lists), frames (a list of records), pydantic models and
        dataclasses, nested in any way.

    Returns
    -------
    None, bool, int, float, str, list or dict
        NaN, NaT, NA and infinities become None: JSON has no word for them.

    Raises
    ------
    TypeError
        If a type has no plain form, rather than printing its repr.
    """
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    scalar = _scalar(value)
    if scalar is not _NOT_A_SCALAR:
        return scalar  # type: ignore[no-any-return]
    if isinstance(value, pd.DataFrame):
        return [plain(record) for record in value.to_dict("records")]
    if isinstance(value, BaseModel):
        return plain({name: getattr(value, name) for name in type(value).model_fields})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return _numbers(value)
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, Set):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no plain JSON form")


_NOT_A_SCALAR = object()


def _scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, PurePath | np.str_):
        return str(value)
    return _NOT_A_SCALAR


def _numbers(values: np.ndarray[Any, Any]) -> Plain:
    """Convert an array of one type at once: a matrix of a thousand jobs has a million cells."""
    bad = ~np.isfinite(values) if values.dtype.kind == "f" else None
    if bad is None or not bad.any():
        return values.tolist()  # type: ignore[no-any-return]
    return np.where(bad, np.array(None), values.astype(object)).tolist()  # type: ignore[no-any-return]


#: From so many values on a document is printed a line a part of it, without further blanks.
_LARGE = 20_000


def to_json(value: Any) -> str:
    """Return one JSON document, ASCII only so that no terminal encoding can break it."""
    found = plain(value)
    if _values(found, _LARGE) < _LARGE:
        return json.dumps(found, allow_nan=False, indent=2)
    if isinstance(found, dict):
        lines = (f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}" for name, part in found.items())
        return "{\n" + ",\n".join(lines) + "\n}"
    parts: list[Plain] = found if isinstance(found, list) else [found]
    return "".join(json_list(iter([parts]))).rstrip() if isinstance(found, list) else json.dumps(found)


def json_list(pieces: Iterator[Any]) -> Iterator[str]:
    """Yield one JSON list in pieces of text, each a few rows: a frame or list at a time, so that no one holds all."""
    before = "[\n"
    for piece in pieces:
        rows = plain(piece)
        if rows:
            encode = json.JSONEncoder(allow_nan=False).encode
            yield before + ",\n".join(map(encode, rows))  # type: ignore[arg-type]
            before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _values(value: Plain, enough: int) -> int:
    """Count the values of a document, up to about enough of them."""
    if not isinstance(value, list | dict):
        return 1
    count = 0
    for part in value.values() if isinstance(value, dict) else value:
        count += _values(part, enough - count)
        if count >= enough:
            break
    return count
