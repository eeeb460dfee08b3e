"""How a figure is printed: three significant digits, the unit in the header, a dash where there is no value."""

from __future__ import annotations

import math
import unicodedata
from typing import Any, Literal, TypeAlias

#: Of a cell: ``text`` a name, ``prose`` a sentence, ``count`` an integer, ``percent`` and ``ratio`` figures whose unit
#: stands in the header, ``flag`` yes or no.
Kind: TypeAlias = Literal["text", "prose", "count", "number", "percent", "ratio", "flag"]

#: Kinds that read from the left.
WORDS: tuple[Kind, ...] = ("text", "prose", "flag")

#: What stands in the header of a column of each kind, after its label.
UNITS: dict[Kind, str] = {"text": "", "prose": "", "count": "", "number": "", "percent": "%", "ratio": "x", "flag": ""}

NO_VALUE = "–"

#: Characters that reorder or hide the text around them; a name made of them must not be able to fool a reader.
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def significant(value: float, digits: int = 3) -> str:
    """Print a number with some significant digits, without an exponent between 0.001 and a billion.

    Examples
    --------
    >>> significant(1.3), significant(86.0051), significant(12345.6), significant(0.000012)
    ('1.30', '86.0', '12,346', '1.20e-05')
    """
    if math.isnan(value):
        return NO_VALUE
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    # 9.996 has one digit before the point but prints as 10.0: decide by the rounded number.
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if exponent < -3 or exponent >= 9:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def format_value(value: Any, kind: Kind = "text") -> str:
    """Print one cell.

    Parameters
    ----------
    value : object
        The cell; None and NaN print as a dash.
    kind : str
        See `Kind`.

    Returns
    -------
    str
        Text without control characters, not escaped for any markup.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NO_VALUE
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(format_value(item, kind) for item in value) or NO_VALUE
    if kind == "flag" or isinstance(value, bool):
        return "yes" if value else "no"
    if kind in ("text", "prose"):
        return visible(str(value))
    if isinstance(value, str):
        return visible(value)
    if kind == "count" and math.isfinite(value):
        return f"{value:,.0f}"
    return significant(float(value))


def slowdown(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Print a slowdown in a sentence, such as ``1.34 x (1.21 to 1.50)``."""
    if value is None or math.isnan(value):
        return NO_VALUE
    text = f"{significant(value)} x"
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return text
    return f"{text} ({significant(low)} to {significant(high)})"


def shorten(text: str, most: int) -> str:
    """Cut a text in the middle, where a long kernel name tells least.

    Examples
    --------
    >>> shorten("abcdefghij", 7)
    'abc…hij'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def capital(text: str) -> str:
    """Return a title as it begins a sentence; what stands in capitals inside stays.

    Examples
    --------
    >>> capital("worst S of the pair"), capital("ANTT")
    ('Worst S of the pair', 'ANTT')
    """
    return text[:1].upper() + text[1:]


def visible(text: str) -> str:
    r"""Write control, direction and other invisible characters as escapes, so that a name looks like what it is.

    Examples
    --------
    >>> visible("a\u202eb\x1b[31m")
    'a\\u202eb\\x1b[31m'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in _INVISIBLE:
        return " " if character == "\n" else character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def volume(text: object) -> float:
    """Return the product of a size such as ``(256, 1, 1)``, NaN where it is none.

    Examples
    --------
    >>> volume("(20, 2, 1)")
    40.0
    """
    try:
        return float(math.prod(float(part) for part in str(text).strip("() ").split(",")))
    except ValueError:
        return float("nan")
