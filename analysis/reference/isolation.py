"""What sharing mechanisms isolate and what they do not, as plain facts with their sources."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import pandas as pd

from analysis.settings import asset


@lru_cache(maxsize=1)
def load() -> pd.DataFrame:
    """Return one row a mechanism: mechanism, memory_protection, faults, memory_capacity, bandwidth, source."""
    return pd.read_csv(asset("data", "isolation.csv"))


def of(mechanisms: Iterable[str]) -> pd.DataFrame:
    """Return the facts on some mechanisms, in their order; one that is not known is said to be not known."""
    table = load().set_index("mechanism")
    found = table.reindex(list(dict.fromkeys(mechanisms)))
    return found.fillna("Not known").rename_axis("mechanism").reset_index()
