"""Numbers of digits, points and commas alone, as nearly all cells of a profile are: read without matching patterns."""

from __future__ import annotations

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
