"""Numbers of digits, points and commas alone, as nearly all cells of a profile are: read without matching patterns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_COMMA, _POINT, _ZERO = 44, 46, 48


def plain_numbers(text: pa.Array) -> npt.NDArray[np.float64] | None:
    """Read a column in which the point separates decimals and the comma thousands.

    Parameters
    ----------
    text : pa.Array
        Text without null.

    Returns
    -------
    ndarray of float64 or None
        None where any cell is empty, holds another sign than digits, points and commas, has commas elsewhere than
        before groups of three digits, or is no finite number: then the cells must be looked at one by one.

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
    if data is None or (offsets[1:] == offsets[:-1]).any():
        return None
    shapes = _well_formed(np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0])
    if shapes is None:
        return None
    if shapes:
        text = pc.replace_substring(text, ",", "")
    try:
        values: npt.NDArray[np.float64] = pc.cast(text, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return values if np.isfinite(values).all() else None


def _well_formed(signs: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int32]) -> bool | None:
    """Say whether there are commas; None where there is another sign, or a comma that separates no thousands.

    A comma must stand before exactly three digits and after one to three, which begin the cell or follow another comma;
    these are then three by that comma's own condition, so no comma can stand behind a point.
    """
    # Four more places at either end: looking beyond the first and the last cell is looking at no digit.
    padded = np.zeros(len(signs) + 8, dtype=np.uint8)
    padded[4:-4] = signs
    begins = np.zeros(len(padded), dtype=bool)
    begins[offsets + 4] = True
    digit, comma, point = padded - np.uint8(_ZERO) < 10, padded == _COMMA, padded == _POINT
    if not (digit | comma | point)[4:-4].all():
        return None
    if not comma.any():
        return False
    opening, inner, end = digit & begins, digit & ~begins, begins | comma | point

    def at(what: npt.NDArray[np.bool_], places: int) -> npt.NDArray[np.bool_]:
        return what[4 + places : len(what) - 4 + places]

    after = at(inner, 1) & at(inner, 2) & at(inner, 3) & at(end, 4)
    third = at(opening, -3) | (at(inner, -3) & at(comma, -4))
    before = at(opening, -1) | (at(inner, -1) & (at(opening, -2) | (at(inner, -2) & third)))
    wrong = at(comma, 0) & ~(after & before & ~at(begins, 0))
    return None if wrong.any() else True
