"""Turns what the engine returns into plain JSON values: numpy, pandas, pydantic and dataclasses alike."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence, Set
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


def to_json(value: Any) -> str:
    """Return one JSON document, ASCII only so that no terminal encoding can break it."""
    return json.dumps(plain(value), allow_nan=False, indent=2)
