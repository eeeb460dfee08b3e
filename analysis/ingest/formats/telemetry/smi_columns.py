"""Columns of nvidia-smi's logs: the driver's names, with or without units, and those that users write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.ingest.text.blocks import Names

_HEAD = re.compile(r"^(?P<name>.*?)\s*(?:[\[(](?P<unit>[^\[\]()]*)[\])])?$")

#: Names of counters of `nvidia-smi --query-gpu` and `--query-compute-apps`.
_OFFICIAL = re.compile(
    r"^(?:utilization\.\w+|memory\.(?:total|used|free|reserved)|power\.[\w.]+|enforced\.power\.limit|temperature\.[\w.]+"
    r"|clocks\.[\w.]+|clocks_[\w.]+|fan\.speed|pstate|pcie\.link\.[\w.]+|pcie\.[rt]x|encoder\.stats\.\w+|ecc\.[\w.]+"
    r"|used_(?:gpu_)?memory|compute_cap|fb_memory_usage\.\w+|protected_memory\.\w+)$"
)
_PARTS = {
    "time": {"timestamp", "time", "datetime", "date_time", "date", "ts"},
    "index": {"index", "gpu_index", "gpu_id", "gpu", "device", "idx", "gpu_idx", "id"},
    "name": {"name", "gpu_name", "device_name", "model"},
    "uuid": {"uuid", "gpu_uuid", "pci_bus_id", "gpu_bus_id", "bus_id", "pci_bus_id_"},
    "pid": {"pid"},
    "process": {"process_name", "process", "command"},
}
#: Users' own spellings, and the counter that they mean.
_MEM = "(?:mem|memory)"
_VRAM = "(?:mem|memory|vram)"
_OWN = tuple(
    (re.compile(pattern), counter, unit)
    for pattern, counter, unit in (
        (rf"(?:util\w*_)?{_MEM}_?util\w*|util\w*_{_MEM}\w*", "utilization.memory", "%"),
        (r"(?:gpu_|sm_)?util(?:ization)?(?:_gpu|_sm)?(?:_pct|_percent|_perc)?|gpu_load|load", "utilization.gpu", "%"),
        (rf"(?:gpu_)?{_VRAM}_?(?:used|usage)(?:_\w+)?|used_{_VRAM}(?:_\w+)?", "memory.used", "MiB"),
        (rf"(?:gpu_)?{_VRAM}_?total(?:_\w+)?|total_{_VRAM}(?:_\w+)?", "memory.total", "MiB"),
        (rf"(?:gpu_)?{_VRAM}_?free(?:_\w+)?|free_{_VRAM}(?:_\w+)?", "memory.free", "MiB"),
        (r"(?:gpu_)?power(?:_draw|_usage)?(?:_w|_watts?)?", "power.draw", "W"),
        (r"(?:gpu_)?temp(?:erature)?(?:_gpu)?(?:_c|_celsius|_degc)?", "temperature.gpu", "C"),
        (r"(?:clock_?s?_?sm|sm_clock|gpu_clock|clock_gpu)(?:_mhz)?", "clocks.current.sm", "MHz"),
        (rf"(?:clock_?s?_?{_MEM}|{_MEM}_clock)(?:_mhz)?", "clocks.current.memory", "MHz"),
    )
)
_SUFFIX = {"mib": "MiB", "gib": "GiB", "mb": "MB", "gb": "GB", "kib": "KiB", "kb": "KB", "bytes": "byte", "mw": "mW"}


@dataclass(frozen=True)
class SmiColumn:
    """A column of a log.

    Attributes
    ----------
    written : str
        As in the header.
    role : str
        ``time``, ``index``, ``name``, ``uuid``, ``pid``, ``process``, ``counter`` or ``other``.
    counter : str
        The driver's name of a counter.
    unit : str or None
        From the header; cells may state their own.
    own : bool
        Whether the name is the user's, and its meaning taken from its words.
    """

    written: str
    role: str
    counter: str = ""
    unit: str | None = None
    own: bool = False


def column(written: str) -> SmiColumn:
    """Say what a column is.

    Examples
    --------
    >>> column("utilization.gpu [%]").unit, column("util_gpu_pct").counter, column("memory_used_mib").unit
    ('%', 'utilization.gpu', 'MiB')
    """
    found = _HEAD.match(written.strip())
    name, unit = (found["name"], found["unit"]) if found else (written.strip(), None)
    plain = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
    if _OFFICIAL.match(name.casefold()):
        return SmiColumn(written, "counter", name.casefold(), unit or None)
    for role, names in _PARTS.items():
        if plain in names:
            return SmiColumn(written, role)
    for pattern, counter, usual in _OWN:
        if pattern.fullmatch(plain):
            said = next((_SUFFIX[end] for end in _SUFFIX if plain.endswith(f"_{end}")), None)
            return SmiColumn(written, "counter", counter, unit or said or usual, own=True)
    return SmiColumn(written, "other", name, unit or None)


def is_log(names: Names) -> bool:
    """Say whether a header is that of a log: the driver's counters, or a time and at least two that users named."""
    known = [column(name) for name in names]
    counters = [item for item in known if item.role == "counter"]
    official = [item for item in counters if not item.own]
    if official:
        return len(official) >= 2 or any(item.role in ("time", "index", "name", "uuid", "pid") for item in known)
    return any(item.role == "time" for item in known) and len({item.counter for item in counters}) >= 2
