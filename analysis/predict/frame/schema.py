"""What every column of the frame means; a frame that carries anything else is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import UsageError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Whose = Literal["target", "co-runners", "pair", "GPU", "identity"]
What = Literal["stalls", "counters", "duty cycle", "configuration", "white box", "identity"]

#: Columns that say who a row is about. Predictors of features drop them; effects, completion and lookups use them.
IDENTITY: tuple[str, ...] = ("workload", "others", "model", "models", "family", "gpu", "mechanism")


@dataclass(frozen=True)
class Column:
    """One column of the frame.

    Attributes
    ----------
    name : str
        Column name.
    meaning : str
        What it says, for people.
    unit : str
        Unit of the stored value; ``ln(...)`` where the logarithm is stored.
    whose : str
        Whose property it is: target, co-runners, pair, GPU, or identity.
    what : str
        Which kind of evidence it comes from: stalls, counters, duty cycle, configuration, or the white-box model.
    quantity : str
        The measured quantity behind it; one-hot and helper columns name what the user knows.
    """

    name: str
    meaning: str
    unit: str
    whose: Whose
    what: What
    quantity: str


@dataclass(frozen=True)
class FeatureSchema:
    """The columns of a frame, in order.

    Parameters
    ----------
    columns : tuple of Column
        Numeric columns only; the identity columns of `IDENTITY` come with every frame.
    """

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> list[str]:
        """Names of the numeric columns, in order."""
        return [column.name for column in self.columns]

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def select(self, *, what: Iterable[str] | None = None, whose: Iterable[str] | None = None) -> list[str]:
        """Return the names of the columns of some kinds."""
        wanted_what = None if what is None else set(what)
        wanted_whose = None if whose is None else set(whose)
        return [
            column.name
            for column in self.columns
            if (wanted_what is None or column.what in wanted_what)
            and (wanted_whose is None or column.whose in wanted_whose)
        ]

    def check(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the frame unchanged if it holds exactly what the schema lists.

        Anything that isn't listed could have been measured during a co-run, or be the target itself, so it is refused.

        Raises
        ------
        UsageError
            If a column is unknown, missing, or not a number.
        """
        given = [str(name) for name in X.columns if name not in IDENTITY]
        unknown = [name for name in given if name not in set(self.names)]
        if unknown:
            raise UsageError(
                f"the frame has columns that the feature schema does not list: {', '.join(unknown)}",
                "Only features of solo profiles may enter; add the column to the schema with its meaning, or drop it.",
            )
        missing = [name for name in self.names if name not in set(given)]
        if missing:
            raise UsageError(f"the frame lacks {', '.join(missing)}", "Build it with analysis.predict.frame.features.")
        wrong = [name for name in given if not pd.api.types.is_numeric_dtype(X[name])]
        if wrong:
            raise UsageError(f"columns {', '.join(wrong)} are no numbers", "Build the frame with features.build.")
        return X

    def to_json(self) -> list[dict[str, Any]]:
        """Return the columns as plain dictionaries, for a manifest."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, rows: Iterable[Mapping[str, Any]]) -> FeatureSchema:
        """Read what `to_json` wrote."""
        return cls(tuple(Column(**row) for row in rows))

    def table(self) -> pd.DataFrame:
        """Return the documentation of the frame as a table, one row a column."""
        return pd.DataFrame(self.to_json())


def numeric(X: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without its identity columns."""
    return X.drop(columns=[name for name in IDENTITY if name in X.columns])
