"""Units of profilers and their base units: both vocabularies of ncu, its decimal multiples, and those of nvprof."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analysis.ingest.contract.cells import Ints
from analysis.ingest.text.numbers import Separators, convert, decide

#: Decimal multiples: ncu prints a transfer of 24 MiB as 25.17 Mbyte.
_MULTIPLES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_FRACTIONS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0}

_BYTE = re.compile(r"^(?P<by>[KkMGTP]?|[KMGT]i)(?:[Bb]ytes?|B)$")
_HERTZ = re.compile(r"^(?P<by>[KkMGT]?)[Hh][Zz]$")
_SECOND = re.compile(r"^(?P<by>[numµμ]?)(?:s|sec|secs|second|seconds)$")
_COUNT = re.compile(
    r"^(?P<by>[KMGT]?)(?P<what>inst|cycle|warp|thread|block|sector|request|register|branch(?:es)?|wavefront|sample)s?$"
)


@dataclass(frozen=True)
class BaseUnit:
    """A unit's base unit and the factor that takes a value there.

    Attributes
    ----------
    name : str or None
        ``ns`` for time, ``hz`` for frequency, ``byte``, ``byte/s``, ``%``, ``inst`` ...; None where there is no unit.
    factor : float
        Multiply by it.
    """

    name: str | None
    factor: float = 1.0


@lru_cache(maxsize=4096)
def base(unit: str) -> BaseUnit:
    """Return the base unit of a unit as a profiler prints it; an unknown one is its own base.

    Parameters
    ----------
    unit : str
        Such as ``usecond``, ``us``, ``Kbyte``, ``Gbyte/s``, ``cycle/nsecond``, ``Mhz``, ``%`` or ``""``.

    Examples
    --------
    >>> base("Mbyte")
    BaseUnit(name='byte', factor=1000000.0)
    >>> base("cycle/usecond")
    BaseUnit(name='hz', factor=1000000.0)
    """
    text = unit.strip()
    if not text:
        return BaseUnit(None)
    top, slash, bottom = text.partition("/")
    if not slash:
        return _single(text)
    above, below = _single(top.strip()), _single(bottom.strip())
    if below.name == "ns":
        # A rate is per second: its denominator is taken to seconds, not to nanoseconds.
        factor = above.factor * (1e9 / below.factor)
        return BaseUnit("hz" if above.name == "cycle" else f"{above.name}/s", factor)
    return BaseUnit(f"{above.name}/{below.name}", above.factor / below.factor)


def _single(text: str) -> BaseUnit:
    found = _SECOND.match(text)
    if found:
        return BaseUnit("ns", round(_FRACTIONS[found["by"]] * 1e9, 6))
    found = _BYTE.match(text)
    if found:
        return BaseUnit("byte", {**_MULTIPLES, **_BINARY}[found["by"]])
    found = _HERTZ.match(text)
    if found:
        return BaseUnit("hz", _MULTIPLES[found["by"]])
    found = _COUNT.match(text)
    if found and found["by"]:
        return BaseUnit(found["what"], _MULTIPLES[found["by"]])
    return BaseUnit(text)


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
