"""The formats of profilers other than Nsight Compute, and of telemetry."""

from __future__ import annotations

from analysis.ingest.format import Format
from analysis.ingest.gpu_summary import NsysSummary, NvprofSummary
from analysis.ingest.gpu_trace import GpuTrace
from analysis.ingest.kineto import Kineto
from analysis.ingest.nsys_sqlite import NsysSqlite
from analysis.ingest.nvprof_metrics import NvprofMetrics

TOOL_FORMATS: tuple[Format, ...] = (
    NsysSqlite(),
    Kineto(),
    NvprofMetrics(),
    GpuTrace(),
    NvprofSummary(),
    NsysSummary(),
)
