"""The formats of profilers other than Nsight Compute, and of telemetry."""

from __future__ import annotations

from analysis.ingest.contract.format import Format
from analysis.ingest.formats.ncu.report import NcuReport
from analysis.ingest.formats.own.capture_provenance import CaptureProvenance
from analysis.ingest.formats.profilers.gpu_summary import NsysSummary, NvprofSummary
from analysis.ingest.formats.profilers.gpu_trace import GpuTrace
from analysis.ingest.formats.profilers.kineto import Kineto
from analysis.ingest.formats.profilers.nsys_sqlite import NsysSqlite
from analysis.ingest.formats.profilers.nvprof import NvprofMetrics
from analysis.ingest.formats.telemetry.dcgm_exporter import DcgmExporter
from analysis.ingest.formats.telemetry.dcgm_monitor import DcgmMonitor
from analysis.ingest.formats.telemetry.dcgm_stats import DcgmStats
from analysis.ingest.formats.telemetry.grafana import Grafana
from analysis.ingest.formats.telemetry.prometheus import PrometheusJson
from analysis.ingest.formats.telemetry.sacct import Sacct
from analysis.ingest.formats.telemetry.smi_log import SmiLog
from analysis.ingest.formats.telemetry.smi_monitor import SmiMonitor

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
