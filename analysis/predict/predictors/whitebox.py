"""The white-box predictor among the others: queueing theory on solo profiles, no measured co-run needed."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import pandas as pd

from analysis.predict.frame.schema import Floats
from analysis.predict.frame.terms import WHITE_BOX
from analysis.predict.predictors import learners
from analysis.predict.predictors.base import Predictor
from analysis.predict.predictors.contributions import Contributions, Explained
from analysis.predict.predictors.learners import Boosting

#: Status of a predictor on data of StallScope's own simulator, when it rests on the model that made them.
SHARES_MODEL = "not ranked: shares its model with the simulator"


class WhiteBox(Predictor):
    """Queueing theory on solo profiles, without one measured co-run: service demands from stalls and utilisations.

    Each job's stall profile gives the demands of its kernels on issue slots, pipes, caches and DRAM; the network of the
    jobs together is solved by approximate mean value analysis (Lazowska et al., *Quantitative System Performance*,
    1984). Nothing is learnt.
    """

    explained_by: ClassVar[Explained] = "exact"

    requires = (WHITE_BOX,)

    def fit(self, X: pd.DataFrame, y: Floats) -> Self:
        """Learn nothing of y; remember what the model usually says, for rows whose jobs lack a profile."""
        self.columns_ = [WHITE_BOX]
        known = X[WHITE_BOX].dropna().to_numpy(dtype=np.float64)
        self.usual_ = float(np.median(known)) if len(known) else 0.0
        return self

    def untrained(self) -> Self:
        """Return itself, ready to be asked without a single co-run; it says NaN of jobs without a profile."""
        self.columns_, self.usual_ = [WHITE_BOX], float("nan")
        return self

    def predict(self, X: pd.DataFrame) -> Floats:
        """Return ln S as the network has it."""
        said = X[WHITE_BOX].to_numpy(dtype=np.float64)
        return np.where(np.isnan(said), self.usual_, said)

    def contributions(self, X: pd.DataFrame, background: pd.DataFrame | None = None) -> Contributions:
        """Return ln S as the contribution of the network; `explain.whitebox_causes` takes it apart."""
        said = pd.DataFrame({WHITE_BOX: self.predict(X)})
        return Contributions(np.zeros(len(X)), said, "exact: the queueing network of these jobs", "alone")


class WhiteBoxBoosting(Boosting):
    """Gradient boosting that knows the white-box prediction beside counters and stalls, and learns where it is off."""

    def needed(self) -> tuple[str, ...]:
        """Return the white-box prediction."""
        return (WHITE_BOX,)


def boosting() -> WhiteBoxBoosting:
    """Return the boosting that has the white-box prediction as one of its features."""
    return WhiteBoxBoosting(what=(*learners.COUNTERS, "stalls", "white box"))
