"""Which name a mechanism of a file gets: the one of `analysis.reference`; an unknown mechanism keeps its own."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.reference.mechanism_names import (
    EXCLUSIVE,
    MECHANISMS,
    MIG,
    MPS,
    MPS_IN_MIG,
    MPS_PRIORITY,
    NOT_STATED,
    STATIC_PARTITION,
    STREAMS,
    TALLY,
    TIME_SLICING,
)

_SPELLINGS: Mapping[str, str] = {
    "alone": EXCLUSIVE, "solo": EXCLUSIVE, "isolated": EXCLUSIVE,
    "timeslicing": TIME_SLICING, "timeslice": TIME_SLICING, "timesliced": TIME_SLICING, "timesharing": TIME_SLICING,
    "default": TIME_SLICING, "naive": TIME_SLICING,
    "mps": MPS, "nvidiamps": MPS, "multiprocessservice": MPS,
    "mpspriority": MPS_PRIORITY, "mpswithpriority": MPS_PRIORITY, "cudampspriority": MPS_PRIORITY,
    "multiinstancegpu": MIG, "mpsinmig": MPS_IN_MIG, "mpsonmig": MPS_IN_MIG, "migmps": MPS_IN_MIG,
    "smpartition": STATIC_PARTITION, "staticpartition": STATIC_PARTITION, "greencontexts": STATIC_PARTITION,
    "stream": STREAMS, "cudastreams": STREAMS, "multistream": STREAMS,
    "tally": TALLY, "blocklevelpriority": TALLY,
}  # fmt: skip


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.casefold())


_KNOWN: Mapping[str, str] = {**_SPELLINGS, **{_plain(name): name for name in MECHANISMS}}


def canonical(text: str) -> str:
    """Return the one name of a mechanism; blank text is ``not stated``, unknown text stays as it is.

    Examples
    --------
    >>> canonical("mps")
    'CUDA MPS'
    >>> canonical("my scheduler")
    'my scheduler'
    """
    plain = text.strip()
    if not plain:
        return NOT_STATED
    return _KNOWN.get(_plain(plain), plain)
