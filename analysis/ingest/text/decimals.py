"""Which mark separates decimals in a table, decided for the whole file and never cell by cell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PLAIN = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
#: One mark, and behind it another number of digits than a group of thousands has.
_CLEAR = re.compile(r"[+-]?\d*([.,])(?:\d{1,2}|\d{4,})?")
_MARK = {",": ".", ".": ","}


@dataclass(frozen=True)
class Decimals:
    """A decision on the decimal mark.

    Attributes
    ----------
    mark : {".", ","}
        What separates decimals; the other of the two groups thousands.
    reason : str
        Why, in words.
    sure : bool
        False where the cells fit both readings.
    """

    mark: str = "."
    reason: str = "no number has a separator that could be a decimal comma"
    sure: bool = True

    def number(self, text: str) -> float | None:
        """Read one number; None where the text is none under this decision.

        Examples
        --------
        >>> Decimals(",").number("1.234,5")
        1234.5
        >>> Decimals(".").number("1,5") is None
        True
        """
        other = _MARK[self.mark]
        plain = text.strip().replace("\u00a0", "").replace("\u202f", "")
        if other in plain:
            whole, _, rest = plain.partition(self.mark)
            if not re.fullmatch(rf"[+-]?\d{{1,3}}(?:{re.escape(other)}\d{{3}})+", whole) or other in rest:
                return None
            plain = plain.replace(other, "")
        plain = plain.replace(self.mark, ".")
        if _NUMBER.fullmatch(plain) is None:
            return None
        value = float(plain)
        return value if abs(value) < float("inf") else None


def decide(cells: Iterable[str], delimiter: str) -> Decimals:
    """Decide the decimal mark from all cells of the columns that hold numbers.

    Parameters
    ----------
    cells : iterable of str
        The text of every number in the file.
    delimiter : str
        What separates cells: programs write ``;`` where the comma is taken by the decimals.

    Returns
    -------
    Decimals
        A number with both marks, several group marks, or another group than three digits decides; so does a leading
        zero. Without any of these a comma groups thousands, unless cells are separated by semicolons.
    """
    votes = {".": 0, ",": 0}
    example: dict[str, str] = {}
    open_: dict[str, str] = {}
    for cell in cells:
        text = cell.strip()
        if not text or _PLAIN.fullmatch(text):
            continue
        clear = _CLEAR.fullmatch(text)
        mark = clear[1] if clear else _vote(text)
        if mark is not None:
            votes[mark] += 1
            example.setdefault(mark, text)
        elif "," in text or "." in text:
            open_.setdefault("," if "," in text else ".", text)
    if votes[","] or votes["."]:
        mark = "," if votes[","] > votes["."] else "."
        what = "comma" if mark == "," else "point"
        clash = votes[_MARK[mark]]
        also = f"; {clash} cells say otherwise, such as {example[_MARK[mark]]!r}" if clash else ""
        return Decimals(mark, f"decimal {what}, shown by cells such as {example[mark]!r}{also}", sure=not clash)
    if "," in open_:
        if delimiter == ";":
            why = f"cells such as {open_[',']!r} could be either; the file separates cells with semicolons"
            return Decimals(",", f"decimal comma: {why}", sure=False)
        return Decimals(".", f"cells such as {open_[',']!r} could be either; read as thousands", sure=False)
    return Decimals()


def _vote(text: str) -> str | None:
    """Return the mark that one number settles, or None."""
    commas, points = text.count(","), text.count(".")
    if commas and points:
        return "," if text.rindex(",") > text.rindex(".") else "."
    if commas > 1:
        return "."
    if points > 1:
        return ","
    for mark in (",", "."):
        if mark in text:
            whole, _, rest = text.lstrip("+-").partition(mark)
            digits = re.match(r"\d*", rest)
            if (
                len(digits.group() if digits else "") != 3
                or len(whole) > 3
                or whole in ("", "0")
                or "e" in rest.lower()
            ):
                return mark
    return None
