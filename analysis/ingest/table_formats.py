"""The formats of co-run and profile tables: published data sets first, the own tables, which ask for less, last."""

from __future__ import annotations

from analysis.ingest.contract.format import Format
from analysis.ingest.formats.own.coruns import OwnCoruns
from analysis.ingest.formats.own.profiles import OwnProfiles
from analysis.ingest.formats.published.gavel import GavelOracle, GavelSimulation
from analysis.ingest.formats.published.kace_kernel_lengths import KaceKernelLengths
from analysis.ingest.formats.published.kace_pairs import KacePairs
from analysis.ingest.formats.published.kace_triples import KaceTriples
from analysis.ingest.formats.published.lucid_pairs import LucidPairs
from analysis.ingest.formats.published.lucid_solo import LucidSolo
from analysis.ingest.formats.published.tally_coruns import TallyCoruns
from analysis.ingest.formats.published.tally_solo import TallySolo

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
