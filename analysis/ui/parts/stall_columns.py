"""How columns of stall tables are called and printed, on every page that shows them."""

from __future__ import annotations

from typing import Any

from analysis.ui.shell.columns import configured

COLUMNS: dict[str, Any] = configured(
    "dataset", "workload", "gpu", "kernel", "short_name", "grid", "block", "kernel_id", "reason", "group", "share",
    "cycles", "total", "accounted", "launches", "kernels", "kind", "stall_family", "weight", "profiled", "sources",
    "files", "simulated", "sentence", "top_reason", "top_share", "other", "other_gpu", "side", "share_base",
    "share_other", "difference", "cycles_base", "cycles_other", "cycles_difference", "state/reported",
    "launches_base", "launches_other", "time_base_ns", "time_other_ns", "slower", "text/rule", "title/resource",
    "share_solo", "share_corun", "samples_solo", "samples_corun", "grew", "use", "counter", "wait", "leans", "beside",
    "slowdown", "low", "high", "origin", "runs", "mechanism", "model/trained", "time_ms", "mean_us", "time_share",
    "largest", "reason_share", "reason_from", "stalled", "flop", "bytes", "intensity", "gflops", "gbps", "bound",
    "file_name", "line", "section", "metric", "value/exact", "unit", "launch_id", "process_id", "duration_ns",
    "invocations", "format", workload={"pinned": True}, other={"pinned": True},
)  # fmt: skip
