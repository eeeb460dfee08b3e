"""The one name of every way in which jobs share a GPU, as databases, tables and pages write it."""

from __future__ import annotations

EXCLUSIVE = "exclusive"
TIME_SLICING = "time-slicing"
MPS = "CUDA MPS"
MPS_PRIORITY = "CUDA MPS with priority"
MIG = "MIG"
MPS_IN_MIG = "MPS inside MIG"
STATIC_PARTITION = "static SM partition"
STREAMS = "streams"
TALLY = "block-level priority (Tally)"
TGS = "TGS"
NOT_STATED = "not stated"

#: In the order in which they are offered and shown.
MECHANISMS = (
    EXCLUSIVE, TIME_SLICING, MPS, MPS_PRIORITY, MIG, MPS_IN_MIG, STATIC_PARTITION, STREAMS, TALLY, TGS,
)  # fmt: skip
