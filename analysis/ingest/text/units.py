"""Units of profilers and their base units: both vocabularies of ncu, its decimal multiples, and those of nvprof."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

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
