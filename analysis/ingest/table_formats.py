"""The formats of co-run and profile tables: published data sets first, the own tables, which ask for less, last."""

from __future__ import annotations

from analysis.ingest.format import Format
from analysis.ingest.gavel import GavelOracle, GavelSimulation
from analysis.ingest.kace_kernel_lengths import KaceKernelLengths
from analysis.ingest.kace_pairs import KacePairs
from analysis.ingest.kace_triples import KaceTriples
from analysis.ingest.lucid_pairs import LucidPairs
from analysis.ingest.lucid_solo import LucidSolo
from analysis.ingest.own_coruns import OwnCoruns
from analysis.ingest.own_profiles import OwnProfiles
from analysis.ingest.tally_coruns import TallyCoruns
from analysis.ingest.tally_solo import TallySolo

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
