"""Cells that carry their unit, as nvprof, nvidia-smi and dashboards print them: ``467.6MB/s``, ``33.09 W``, ``4 %``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.ingest.contract.cells import Ints
from analysis.ingest.text.numbers import Separators, convert, decide
from analysis.ingest.text.units import base

_CELL = re.compile(
    r"^\s*(?P<number>[+-]?(?:\d[\d.,'\u00a0\u202f]*|[.,]\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[%°A-Za-zµμ][^\d]*)?$"
)
#: A level of use in words: ``Mid (5)``, out of ten.
_LEVEL = re.compile(r"^\s*(?:Idle|Low|Mid|High|Max)\s*\((?P<number>\d+)\)\s*$")
LEVEL = "level of 10"

#: What tools print where they have no value; in brackets or not, in capitals or not.
_NO_VALUE = re.compile(
    r"^\s*(?:[-+]?nan%?|[-+]?inf%?|n/?a|-+|<?null>?|none|undefined|unknown|overflow|<overflow>"
    r"|\(!\) n/a|not ?(?:supported|available|found|applicable|specified)|unknown error|gpu requires reset"
    r"|gpu is lost|insufficient permissions?|no permission|not active)\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quantities:
    """A column of numbers with units.

    Attributes
    ----------
    values : ndarray of float64
        As printed, NaN where missing or wrong.
    unit : ndarray of int64
        Number into `units`, of each row.
    units : list of str
        Units as printed; ``""`` where a cell has none.
    missing, wrong : ndarray of bool
        Where the tool says that it has no value, and where the text is neither a number nor such a word.
    why : list of str or None
        What the tool printed in place of a value; ``no value`` for an empty cell.
    """

    values: npt.NDArray[np.float64]
    unit: Ints
    units: list[str]
    missing: npt.NDArray[np.bool_]
    wrong: npt.NDArray[np.bool_]
    why: list[str | None]

    def unit_of(self, stated: str | None = None) -> str | None:
        """Return the one unit of the column; `stated` is that of its header, for cells without one."""
        found = {self.units[code] for code in np.unique(self.unit[~np.isnan(self.values)])} - {""}
        if not found:
            return stated or None
        return found.pop() if len(found) == 1 else base(sorted(found)[0]).name

    def scaled(self) -> npt.NDArray[np.float64]:
        """Return the values in the unit of `unit_of`: as printed where the unit is one, else in base units."""
        found = {self.units[code] for code in np.unique(self.unit[~np.isnan(self.values)])} - {""}
        return self.based() if len(found) > 1 else self.values

    def based(self) -> npt.NDArray[np.float64]:
        """Return the values in base units."""
        factor = np.array([base(name).factor for name in self.units] or [1.0])
        out: npt.NDArray[np.float64] = self.values * factor[self.unit]
        return out


def no_value(text: str) -> str | None:
    """Return what a tool says in place of a value, None where the text is something else.

    Examples
    --------
    >>> no_value("[Not Supported]"), no_value(""), no_value("41")
    ('Not Supported', 'no value', None)
    """
    bare = text.strip().strip("[]<>").strip()
    if not bare:
        return "no value"
    return bare if _NO_VALUE.match(bare) else None


def read(column: pa.Array, separators: Separators | None = None) -> Quantities:
    """Read a column.

    Parameters
    ----------
    column : pa.Array
        Text.
    separators : Separators, optional
        How the file writes numbers; decided from the column when None.

    Returns
    -------
    Quantities
        Values, units, and where there is none.
    """
    coded = column.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    at = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    numbers, unit_names = _split(texts)
    plain = pa.array(numbers, pa.string())
    found = convert(plain, separators or decide([plain]))
    reasons = [no_value(text) for text in texts]
    absent = np.array([reason is not None for reason in reasons], dtype=bool)
    values = np.where(absent, np.nan, found.values)
    units = list(dict.fromkeys(unit_names))
    place = {name: number for number, name in enumerate(units)}
    codes = np.array([place[name] for name in unit_names], dtype=np.int64)
    wrong = np.isnan(values) & ~absent
    if not len(at):
        empty = np.zeros(0, dtype=bool)
        return Quantities(np.zeros(0), at, [""], empty, empty.copy(), [])
    return Quantities(values[at], codes[at], units, absent[at], wrong[at], [reasons[code] for code in at])


def number_texts(column: pa.Array) -> pa.Array:
    """Return the numbers of a column without their units, to decide how they are written."""
    texts = column.dictionary_encode().dictionary.to_pylist()
    return pa.array(_split(texts)[0], pa.string())


def _split(texts: list[str]) -> tuple[list[str], list[str]]:
    numbers, units = [], []
    for text in texts:
        level = _LEVEL.match(text)
        found = level or _CELL.match(text)
        numbers.append(found["number"] if found else text)
        units.append(LEVEL if level else ((found["unit"] or "").strip() if found else ""))
    return numbers, units
