"""Numbers as profilers print them: which sign separates decimals and thousands is decided once for a file, and said.

The locale of the machine that profiled decides how ncu prints: ``63,779``, ``63.779`` or ``63779``. A single value such
as ``1,234`` can be either; the file as a whole usually can't.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_COMMA, _POINT, _ZERO = 44, 46, 48
#: Signs of a cell that are looked at together, each a bit of a word; longer numbers are not read here.
_WIDTHS = (16, 32)
#: Every fourth place, as bits: where commas stand, counted from the last digit before the point.
_FOURTHS = np.uint32(0x88888888)
_ONE = np.uint32(1)
#: All bits of a cell of so many signs, and that of its first sign.
_CELL = np.array([(1 << size) - 1 for size in range(_WIDTHS[-1] + 1)], dtype=np.uint32)
_FIRST = np.array([1 << size >> 1 for size in range(_WIDTHS[-1] + 1)], dtype=np.uint32)

Floats = npt.NDArray[np.float64]
_Bits = npt.NDArray[np.uint32]


def plain_numbers(text: pa.Array) -> Floats | None:
    """Read a column in which the point separates decimals and the comma thousands.

    Parameters
    ----------
    text : pa.Array
        Text without null.

    Returns
    -------
    ndarray of float64 or None
        None where any cell is empty or longer than 32 signs, holds another sign than digits, points and commas, has
        commas elsewhere than before groups of three digits, or is no finite number: then the cells must be looked at
        one by one.

    Examples
    --------
    >>> plain_numbers(pa.array(["1,234.5", "12", "0.25"])).tolist()
    [1234.5, 12.0, 0.25]
    >>> plain_numbers(pa.array(["1,2345"])) is None
    True
    """
    if text.type != pa.string() or text.null_count or not len(text):
        return None
    _, bounds, data = text.buffers()
    offsets = np.frombuffer(bounds, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    sizes = np.diff(offsets)
    width = next((width for width in _WIDTHS if sizes.max() <= width), None)
    if data is None or width is None or not sizes.all():
        return None
    joined = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]
    # One row a cell, its last sign at the right; what stands before the cell is masked out.
    padded = np.concatenate([np.zeros(width, dtype=np.uint8), joined])
    places = np.ndarray((len(joined) + 1,), dtype=f"V{width}", buffer=padded, strides=(1,))
    signs = places[offsets[1:] - offsets[0]].view(np.uint8).reshape(-1, width)
    cell = _CELL[sizes]
    commas = _bits(signs == _COMMA) & cell
    points = _bits(signs == _POINT) & cell
    digits = _bits(signs - np.uint8(_ZERO) < 10) & cell
    if (commas | points | digits != cell).any() or not _well_formed(commas, points, cell, _FIRST[sizes]):
        return None
    if commas.any():
        bounds = np.zeros(len(sizes) + 1, dtype=np.int32)
        np.cumsum(sizes - np.bitwise_count(commas), out=bounds[1:])
        bare = joined[joined != _COMMA]
        text = pa.StringArray.from_buffers(len(sizes), pa.py_buffer(bounds), pa.py_buffer(bare))
    try:
        values: Floats = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _bits(mask: npt.NDArray[np.bool_]) -> _Bits:
    """Return each row as a number, the last place its lowest bit."""
    return np.packbits(mask.ravel()).view(f">u{mask.shape[1] // 8}").astype(np.uint32)


def _well_formed(commas: _Bits, points: _Bits, cell: _Bits, first: _Bits) -> bool:
    """Say whether each cell has at most one point, and commas that separate thousands or none at all.

    Commas must stand in front of exactly three digits and behind one to three: at every fourth place from the point to
    the left as far as the cell goes, and nowhere else.
    """
    # Multiplying by the bit of the point, and one place more, moves the pattern in front of the point.
    pattern = _FOURTHS * np.maximum(points << _ONE, _ONE) & cell
    wrong = (commas != pattern) | ((commas & first) != 0)
    wrong &= commas != 0
    wrong |= (points & (points - _ONE)) != 0
    return not wrong.any()


#: Rows that are converted together.
_SLICE = 1 << 16
#: Rows that are looked at together for how numbers are written; most files are decided by the first ones.
_LOOK = 1 << 14

#: What stands where there is no value.
MISSING = (
    "", "n/a", "N/A", "(!) n/a", "nan", "-nan", "NaN", "-nan(ind)", "inf", "-inf", "Inf", "-Inf", "-", "[N/A]",
    "[Not Supported]",
)  # fmt: skip

_MISSING = pa.array(MISSING)

#: Signs between thousands in some locales: blank, no-break blanks, apostrophes; in RE2's notation.
_SPACES = r"[ \x{00a0}\x{202f}'\x{2019}]"
_GROUPED = rf"^\s*[+-]?\d{{1,3}}(?:{_SPACES}\d{{3}})+(?:[.,]\d+)?(?:\s*|[ ]?[(;].*)$"
#: Forms that only one reading fits. ``{d}`` is the decimal sign, ``{t}`` the sign of thousands.
_PROOF = (
    r"^[+-]?(?:\d{{1,3}}(?:{t}\d{{3}})+{d}\d+"  # both signs
    r"|\d{{1,3}}(?:{t}\d{{3}}){{2,}}"  # the sign of thousands twice
    r"|\d*{d}(?:\d{{1,2}}|\d{{4,}})"  # another number of digits than three behind
    r"|(?:0\d*|\d{{4,}}){d}\d+)"  # a zero, or more than three digits, in front
    r"(?:[eE][+-]?\d+)?$"
)
_NUMBER = r"^[+-]?(?:\d+|\d{{1,3}}(?:{t}\d{{3}})+)?(?:{d}\d*)?(?:[eE][+-]?\d+)?$"
_AMBIGUOUS = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"


@dataclass(frozen=True)
class Separators:
    """How the numbers of a file are written.

    Attributes
    ----------
    decimal : str
        ``.`` or ``,``.
    thousands : str or None
        Sign between thousands, None where none was seen.
    why : str
        One sentence for the report.
    guessed : bool
        Whether no value of the file decides it.
    """

    decimal: str
    thousands: str | None
    why: str
    guessed: bool = False

    @property
    def told(self) -> dict[str, str | bool | None]:
        """The same for the report of a file."""
        return {"decimal": self.decimal, "thousands": self.thousands, "why": self.why, "guessed": self.guessed}


@dataclass(frozen=True)
class Numbers:
    """A column of text as numbers.

    Attributes
    ----------
    values : ndarray of float64
        NaN where missing or wrong.
    missing : ndarray of bool
        Where the tool printed that it has no value.
    wrong : ndarray of bool
        Where the text is no number.
    grouped : str or None
        The first text with a blank or an apostrophe between thousands; these were taken out.
    """

    values: npt.NDArray[np.float64]
    missing: npt.NDArray[np.bool_]
    wrong: npt.NDArray[np.bool_]
    grouped: str | None = None


def decide(columns: Sequence[pa.Array]) -> Separators:
    """Decide for a file which signs separate decimals and thousands.

    Parameters
    ----------
    columns : sequence of pa.Array
        All columns of text that hold numbers.

    Returns
    -------
    Separators
        Proven by a value, or, where all values with a comma fit both readings, thousands, marked as guessed.
    """
    found = _Evidence()
    slices = (column.slice(start, _LOOK) for column in columns for start in range(0, len(column), _LOOK))
    with_comma = any(pc.any(pc.match_substring(piece, ",")).as_py() for piece in slices)
    for column in columns:
        for start in range(0, len(column), _LOOK):
            found.look(_bare(column.slice(start, _LOOK)), with_comma)
            if found.settled:
                return found.decision()
    return found.decision()


class _Evidence:
    """Values that only one reading fits, counted."""

    def __init__(self) -> None:
        self.point = self.comma = 0
        self.example: dict[str, str] = {}
        self.ambiguous: str | None = None
        self.some_comma = False

    @property
    def settled(self) -> bool:
        """Whether enough values agree; a later one that does not is wrong, not a reason to read all others anew."""
        return self.some_comma and ((self.point >= 50 and not self.comma) or (self.comma >= 50 and not self.point))

    def look(self, piece: pa.Array, with_comma: bool) -> None:
        sign = "[.,]" if with_comma else "[.]"
        signed = piece.filter(pc.match_substring_regex(piece, rf"^[+-]?[\d.,]*{sign}[\d.,]*(?:[eE][+-]?\d+)?$"))
        if not len(signed):
            return
        self.some_comma = self.some_comma or bool(pc.any(pc.match_substring(signed, ",")).as_py())
        for decimal, thousands in ((".", ","), (",", "[.]")):
            proof = _PROOF.format(d="[.]" if decimal == "." else ",", t=thousands)
            proven = signed.filter(pc.match_substring_regex(signed, proof))
            if len(proven):
                self.example.setdefault(decimal, proven[0].as_py())
                if decimal == ".":
                    self.point += len(proven)
                else:
                    self.comma += len(proven)
        if self.ambiguous is None:
            either = signed.filter(pc.match_substring_regex(signed, _AMBIGUOUS))
            self.ambiguous = either[0].as_py() if len(either) else None

    def decision(self) -> Separators:
        if self.comma > self.point:
            return Separators(",", ".", f"the comma separates decimals, as in {self.example[',']!r}")
        if self.point:
            if not self.some_comma:
                return Separators(".", None, f"the point separates decimals, as in {self.example['.']!r}")
            shown = self.example["."]
            return Separators(".", ",", f"the comma separates thousands, as {shown!r} can be read in one way only")
        if self.ambiguous is None:
            return Separators(".", None, "no value has a sign that could mean two things")
        meaning = (
            "the comma was read as separating thousands" if "," in self.ambiguous else "the point as a decimal point"
        )
        return Separators(
            ".", ",", f"nothing in the file decides what {self.ambiguous!r} means; {meaning}", guessed=True
        )


def convert(column: pa.Array, separators: Separators, plain: npt.NDArray[np.float64] | None = None) -> Numbers:
    """Convert text to numbers.

    Parameters
    ----------
    column : pa.Array
        Text.
    separators : Separators
        As decided for the file.
    plain : ndarray of float64, optional
        What `plain_numbers` made of the column already.

    Returns
    -------
    Numbers
        Values, and where they are missing or wrong. A leading number followed by values of instances in brackets, as
        ``--print-metric-instances`` prints, counts with the leading number.
    """
    if plain is not None and separators.decimal == ".":
        return _all_there(plain)
    pieces = [column.slice(start, _SLICE) for start in range(0, len(column), _SLICE)]
    if len(pieces) < 2:
        return _convert(column, separators)
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        done = list(workers.map(lambda piece: _convert(piece, separators), pieces))
    return Numbers(
        np.concatenate([piece.values for piece in done]),
        np.concatenate([piece.missing for piece in done]),
        np.concatenate([piece.wrong for piece in done]),
        next((piece.grouped for piece in done if piece.grouped), None),
    )


def _convert(column: pa.Array, separators: Separators) -> Numbers:
    found = _converted(column, separators)
    # Blanks and the values of instances are rare: they are looked for where some cell could not be read without.
    if not found.wrong.any():
        return found
    grouped = pc.filter(column, pc.match_substring_regex(column, _GROUPED))
    return replace(
        _converted(_bare(column), separators), grouped=str(grouped[0].as_py()).strip() if len(grouped) else None
    )


def _converted(text: pa.Array, separators: Separators) -> Numbers:
    if separators.decimal == "." and (found := plain_numbers(text)) is not None:
        return _all_there(found)
    missing = pc.is_in(text, _MISSING)
    absent = missing.to_numpy(zero_copy_only=False)
    there = pc.if_else(missing, pa.scalar(None, pa.string()), text) if absent.any() else text
    plain = _plain(there, separators)
    try:
        values = pc.cast(plain, pa.float64())
    except pa.ArrowInvalid:
        # Some cell is no number: tell them apart by their form before converting the rest.
        form = _NUMBER.format(d="[.]", t=",")
        shaped = pc.and_(pc.match_substring_regex(plain, form), pc.match_substring_regex(plain, r"\d"))
        values = pc.cast(pc.if_else(shaped, plain, pa.scalar(None, pa.string())), pa.float64())
    numbers = values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    finite = np.isfinite(numbers)
    if finite.all():
        return Numbers(numbers, absent, np.zeros(len(numbers), dtype=bool))
    return Numbers(np.where(finite, numbers, np.nan), absent, ~finite & ~absent)


def _all_there(values: npt.NDArray[np.float64]) -> Numbers:
    none = np.zeros(len(values), dtype=bool)
    return Numbers(values, none, none)


def _bare(text: pa.Array) -> pa.Array:
    """Take off blanks, the values of instances, and blanks or apostrophes between thousands."""
    if not len(text) or not pc.any(pc.match_substring_regex(text, rf"{_SPACES}|[(;]")).as_py():
        return text
    text = pc.utf8_trim_whitespace(text)
    text = pc.replace_substring_regex(text, r"^([^;( ]+) ?[(;].*$", r"\1")
    grouped = pc.match_substring_regex(text, _GROUPED)
    return pc.if_else(grouped, pc.replace_substring_regex(text, _SPACES, ""), text)


def _plain(text: pa.Array, separators: Separators) -> pa.Array:
    """Take the signs between thousands out and write decimals with a point; what does not fit becomes null."""
    if not pc.any(pc.match_substring(text, ",")).as_py() and separators.decimal == ".":
        return text
    sign = "," if separators.decimal == "." else "."
    signed = pc.match_substring(text, sign)
    form = _NUMBER.format(d="[.]" if separators.decimal == "." else ",", t="," if sign == "," else "[.]")
    fits = pc.match_substring_regex(text, form)
    unfit = pc.and_not(signed, fits)
    if pc.any(unfit).as_py():
        text = pc.if_else(unfit, pa.scalar("?"), text)
    text = pc.replace_substring(text, sign, "")
    return text if separators.decimal == "." else pc.replace_substring(text, ",", ".")
