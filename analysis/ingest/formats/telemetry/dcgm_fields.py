"""Fields of DCGM: short names, units, and the numbers that stand for no value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Numbers that DCGM writes where it has no value, by the reason.
_BLANK = ("blank", "not found", "not supported", "no permission")
_BASES = (9223372036854775792.0, 2147483632.0, 140737488355328.0)

#: Columns of `dcgmi dmon`: name of the field, unit.
SHORT = {
    "GRACT": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "ratio"), "SMACT": ("DCGM_FI_PROF_SM_ACTIVE", "ratio"),
    "SMOCC": ("DCGM_FI_PROF_SM_OCCUPANCY", "ratio"), "TENSO": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "ratio"),
    "DRAMA": ("DCGM_FI_PROF_DRAM_ACTIVE", "ratio"), "FP64A": ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "ratio"),
    "FP32A": ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "ratio"), "FP16A": ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "ratio"),
    "PCITX": ("DCGM_FI_PROF_PCIE_TX_BYTES", "byte/s"), "PCIRX": ("DCGM_FI_PROF_PCIE_RX_BYTES", "byte/s"),
    "NVLTX": ("DCGM_FI_PROF_NVLINK_TX_BYTES", "byte/s"), "NVLRX": ("DCGM_FI_PROF_NVLINK_RX_BYTES", "byte/s"),
    "GPUTL": ("DCGM_FI_DEV_GPU_UTIL", "%"), "MCUTL": ("DCGM_FI_DEV_MEM_COPY_UTIL", "%"),
    "TMPTR": ("DCGM_FI_DEV_GPU_TEMP", "C"), "MMTMP": ("DCGM_FI_DEV_MEMORY_TEMP", "C"),
    "POWER": ("DCGM_FI_DEV_POWER_USAGE", "W"), "FBUSD": ("DCGM_FI_DEV_FB_USED", "MiB"),
    "FBUSP": ("DCGM_FI_DEV_FB_USED_PERCENT", "ratio"),
    "FBFRE": ("DCGM_FI_DEV_FB_FREE", "MiB"), "FBTTL": ("DCGM_FI_DEV_FB_TOTAL", "MiB"),
    "SMCLK": ("DCGM_FI_DEV_SM_CLOCK", "MHz"), "MMCLK": ("DCGM_FI_DEV_MEM_CLOCK", "MHz"),
    "TOTEC": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ"),
}  # fmt: skip

#: Endings of a field's name that tell its unit.
_UNITS = (
    ("_GPU_UTIL", "%"), ("_COPY_UTIL", "%"), ("_ENC_UTIL", "%"), ("_DEC_UTIL", "%"), ("_TEMP", "C"), ("_CLOCK", "MHz"),
    ("_POWER_USAGE", "W"), ("_POWER_USAGE_INSTANT", "W"), ("_FB_USED", "MiB"), ("_FB_FREE", "MiB"),
    ("_FB_TOTAL", "MiB"), ("_FB_RESERVED", "MiB"), ("_ENERGY_CONSUMPTION", "mJ"), ("_ACTIVE", "ratio"),
    ("_OCCUPANCY", "ratio"), ("_RATIO", "ratio"), ("_BYTES", "byte/s"), ("_POWER_MGMT_LIMIT", "W"),
)  # fmt: skip


def is_field(name: str) -> bool:
    """Say whether a metric's name is one of DCGM's, in the exporter's spelling of any age."""
    return name.startswith(("DCGM_FI_", "DCGM_EXP_", "dcgm_"))


def unit_of(name: str) -> str | None:
    """Return the unit of a field, None where its name doesn't tell."""
    upper = name.upper()
    return next((unit for ending, unit in _UNITS if upper.endswith(ending)), None)


def blanked(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], list[str | None] | None]:
    """Replace the numbers that stand for no value, and say which of them stood there.

    Returns
    -------
    tuple of ndarray and list
        Values, NaN where blank; the reason for each, None where nothing was blank.
    """
    codes = np.full(len(values), -1)
    certain = len(_BLANK)
    for base in _BASES:
        if base > 2.0**53:
            # Numbers this large are read rounded: only that it is one of them is certain.
            codes[np.abs(values - base) <= 4096] = certain
            continue
        for place in range(certain):
            codes[values == base + place] = place
    if not (codes >= 0).any():
        return values, None
    words = (*_BLANK, "a number that stands for no value")
    return np.where(codes >= 0, np.nan, values), [None if code < 0 else f"DCGM: {words[code]}" for code in codes]
