"""The formats of profilers other than Nsight Compute, and of telemetry."""

from __future__ import annotations

from analysis.ingest.capture_provenance import CaptureProvenance
from analysis.ingest.dcgm_exporter import DcgmExporter
from analysis.ingest.dcgm_monitor import DcgmMonitor
from analysis.ingest.dcgm_stats import DcgmStats
from analysis.ingest.format import Format
from analysis.ingest.gpu_summary import NsysSummary, NvprofSummary
from analysis.ingest.gpu_trace import GpuTrace
from analysis.ingest.grafana import Grafana
from analysis.ingest.kineto import Kineto
from analysis.ingest.ncu_report import NcuReport
from analysis.ingest.nsys_sqlite import NsysSqlite
from analysis.ingest.nvprof_metrics import NvprofMetrics
from analysis.ingest.prometheus import PrometheusJson
from analysis.ingest.sacct import Sacct
from analysis.ingest.smi_log import SmiLog
from analysis.ingest.smi_monitor import SmiMonitor

TOOL_FORMATS: tuple[Format, ...] = (
    NcuReport(),
    CaptureProvenance(),
    NsysSqlite(),
    Kineto(),
    PrometheusJson(),
    NvprofMetrics(),
    GpuTrace(),
    NvprofSummary(),
    NsysSummary(),
    SmiMonitor(),
    DcgmMonitor(),
    DcgmStats(),
    Grafana(),
    DcgmExporter(),
    Sacct(),
)

#: Asked after the own tables, as a user's log may have any names of columns.
LOG_FORMATS: tuple[Format, ...] = (SmiLog(),)
