"""The formats that StallScope reads, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from analysis.ingest.contract.format import Format, Opened
from analysis.ingest.formats.ncu.long import NcuLong
from analysis.ingest.formats.ncu.report import NcuReport
from analysis.ingest.formats.ncu.summary import NcuSummary
from analysis.ingest.formats.ncu.wide import NcuWide
from analysis.ingest.formats.own.capture_provenance import CaptureProvenance
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.profiles import OwnProfiles
from analysis.ingest.formats.profilers.kineto import Kineto
from analysis.ingest.formats.profilers.nsys_sqlite import NsysSqlite
from analysis.ingest.formats.profilers.nsys_stats import GpuTrace, NsysSummary, NvprofSummary
from analysis.ingest.formats.profilers.nvprof import NvprofMetrics
from analysis.ingest.formats.profilers.rocprof import RocprofTables, RocprofTrace
from analysis.ingest.formats.published.gavel import GavelOracle, GavelSimulation
from analysis.ingest.formats.published.kace import KaceKernelLengths, KacePairs, KaceTriples
from analysis.ingest.formats.published.lucid import LucidPairs, LucidSolo
from analysis.ingest.formats.published.tally import TallyCoruns, TallySolo
from analysis.ingest.formats.telemetry.dcgm import DcgmExporter, DcgmMonitor, DcgmStats
from analysis.ingest.formats.telemetry.grafana import Grafana
from analysis.ingest.formats.telemetry.prometheus import PrometheusJson
from analysis.ingest.formats.telemetry.sacct import Sacct
from analysis.ingest.formats.telemetry.smi import SmiLog, SmiMonitor
from analysis.ingest.formats.telemetry.tracking import Tracking
from analysis.ingest.text.refusals import explain

TABLE_FORMATS: tuple[Format, ...] = (
    KacePairs(),
    KaceTriples(),
    KaceKernelLengths(),
    GavelOracle(),
    GavelSimulation(),
    LucidPairs(),
    LucidSolo(),
    TallyCoruns(),
    TallySolo(),
    OwnCoruns(),
    OwnProfiles(),
)


TOOL_FORMATS: tuple[Format, ...] = (
    NcuReport(),
    CaptureProvenance(),
    NsysSqlite(),
    RocprofTrace(),
    RocprofTables(),
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
    Tracking(),
)

#: Asked after the own tables, as a user's log may have any names of columns.
LOG_FORMATS: tuple[Format, ...] = (SmiLog(),)


#: The particular ones first: a format that asks for fewer signs comes after those that ask for more.
FORMATS: tuple[Format, ...] = (NcuLong(), NcuSummary(), NcuWide(), *TOOL_FORMATS, *TABLE_FORMATS, *LOG_FORMATS)


def choose(opened: Opened) -> Format:
    """Return the format that claims a file.

    Parameters
    ----------
    opened : Opened
        The file.

    Returns
    -------
    Format
        The first that recognises the content.

    Raises
    ------
    InputRefusedError
        If none does; the sentence says what the file is instead.
    """
    for candidate in FORMATS:
        if candidate.sniff(opened):
            return candidate
    raise explain(opened)
