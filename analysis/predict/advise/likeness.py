"""How alike two jobs are by their settings: the same model at another batch size is near, another family far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries.sources import workloads

#: Difference of two jobs that have nothing in common, of two of one family, and of two of one model at least.
STRANGERS, OF_ONE_FAMILY, OF_ONE_MODEL = 2.0, 1.0, 0.2

_SETTINGS = ("batch_size", "precision", "phase", "training_data")
_WORDS = {"batch_size": "batch size", "precision": "precision", "phase": "phase", "training_data": "training data"}


@dataclass(frozen=True)
class Likeness:
    """The settings of a data set's jobs.

    Attributes
    ----------
    table : pd.DataFrame
        Index workload; model, family and settings where they are known.
    """

    table: pd.DataFrame

    @classmethod
    def of(cls, database: Database, dataset: str) -> Likeness:
        """Read the jobs of a data set."""
        found = workloads(database, Filter(datasets=(dataset,))).drop_duplicates("workload").set_index("workload")
        return cls(found[[name for name in ("model", "family", *_SETTINGS) if name in found]])

    def apart(self, one: str, other: str) -> float:
        """Return how much two jobs differ: 0 for the same one, below `OF_ONE_FAMILY` within a model."""
        if one == other:
            return 0.0
        if not {one, other} <= set(self.table.index):
            return STRANGERS
        if not self.of_one_model(one, other):
            family = self._value(one, "family")
            return OF_ONE_FAMILY if family is not None and family == self._value(other, "family") else STRANGERS
        total = OF_ONE_MODEL
        for name in _SETTINGS:
            mine, theirs = self._value(one, name), self._value(other, name)
            if mine == theirs:
                continue
            if name == "batch_size" and mine and theirs:
                total += min(0.1 * abs(float(np.log2(float(mine) / float(theirs)))), 0.5)
            else:
                total += 0.3
        return min(total, OF_ONE_FAMILY)

    def of_one_model(self, one: str, other: str) -> bool:
        """Say whether two jobs are one model with other settings."""
        if not {one, other} <= set(self.table.index):
            return False
        model = self._value(one, "model")
        return model is not None and model == self._value(other, "model")

    def settings(self, one: str, other: str) -> list[str]:
        """Return the settings in which two jobs of one model differ."""
        return [name for name in _SETTINGS if self._value(one, name) != self._value(other, name)]

    def difference(self, one: str, other: str) -> str:
        """Say what is changed when one job becomes another."""
        if self.of_one_model(one, other):
            parts = [
                f"{_WORDS[name]} {self._shown(other, name)} instead of {self._shown(one, name)}"
                for name in self.settings(one, other)
            ]
            if parts:
                return f"{one} with {', '.join(parts)} ({other})"
        return f"{other} instead of {one}"

    def _value(self, name: str, column: str) -> Any:
        if column not in self.table:
            return None
        value: Any = self.table.at[name, column]
        return None if pd.isna(value) else value

    def _shown(self, name: str, column: str) -> str:
        value = self._value(name, column)
        return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
