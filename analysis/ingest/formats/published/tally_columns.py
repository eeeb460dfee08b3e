"""What Tally's two files have in common: the GPU, the ways of sharing, and how their columns are called."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.ingest.contract.mechanisms import MPS, MPS_PRIORITY, TALLY, TGS, TIME_SLICING

GPU = "A100"

#: Part of a column's name -> mechanism.
SYSTEMS: Mapping[str, str] = {
    "tally": TALLY,
    "mps": MPS,
    "mps_priority": MPS_PRIORITY,
    "time_slicing": TIME_SLICING,
    "tgs": TGS,
}
#: Part of a column's name -> statistic of latency.
STATISTICS: Mapping[str, str] = {"avg": "mean", "90th": "p90", "95th": "p95", "99th": "p99"}

#: Columns that say how Tally was set; the other systems have no settings in the file.
SETTINGS = (
    "preemption_latency_limit", "min_wait_time", "use_original_configs", "use_space_share", "disable_transformation",
    "wait_time_to_use_original",
)  # fmt: skip

#: A server under load whose latency alone was taken from a run in which requests came one after the other.
SINGLE_STREAM = "solo_single_stream"
