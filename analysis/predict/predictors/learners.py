"""General learners on the frame: neighbours, ridge, support vectors, forests, a small network, and boosting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.svm import SVR

from analysis.predict.predictors.base import BOOSTING_ARRAYS, FOREST_ARRAYS, FeatureModel

#: Evidence without stall shares: the real opponent of a stall-based predictor.
COUNTERS = ("counters", "duty cycle", "configuration")
#: Stall shares alone, with what a scheduler always knows.
STALLS = ("stalls", "configuration")


class _Nearest:
    """Nearest neighbours that make do with fewer training rows than neighbours."""

    def __init__(self, n_neighbors: int) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Nearest:
        self.model = KNeighborsRegressor(min(self.n_neighbors, len(y)), weights="distance", algorithm="brute").fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(X))


class Neighbours(FeatureModel):
    """Mean of the nearest measured members in scaled features, weighted by inverse distance.

    Parameters
    ----------
    n_neighbors : int
        Neighbours.
    """

    scales = True
    holds = (_Nearest,)

    def __init__(self, n_neighbors: int = 5, what: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> None:
        super().__init__(what, exclude)
        self.n_neighbors = n_neighbors

    def make_model(self) -> Any:
        """Return the learner."""
        return _Nearest(self.n_neighbors)


class RidgeModel(FeatureModel):
    """Ridge regression on scaled features, its strength chosen by leave-one-out error on the training rows."""

    scales = True

    def make_model(self) -> Any:
        """Return the learner."""
        return RidgeCV(alphas=np.logspace(-2, 4, 13))


class SupportVectors(FeatureModel):
    """Support vector regression with a radial kernel on scaled features.

    Parameters
    ----------
    C, epsilon : float
        Penalty, and the width of the tube in ln S.
    """

    scales = True

    def __init__(
        self, C: float = 3.0, epsilon: float = 0.02, what: Sequence[str] | None = None, exclude: Sequence[str] = ()
    ) -> None:
        super().__init__(what, exclude)
        self.C = C
        self.epsilon = epsilon

    def make_model(self) -> Any:
        """Return the learner."""
        return SVR(C=self.C, epsilon=self.epsilon, gamma="scale")


class Network(FeatureModel):
    """A small multilayer perceptron on scaled features, trained to convergence by L-BFGS.

    Parameters
    ----------
    hidden : sequence of int
        Units of the hidden layers.
    alpha : float
        Weight decay.
    random_state : int
        Seed.
    """

    scales = True

    def __init__(
        self,
        hidden: Sequence[int] = (32, 16),
        alpha: float = 1.0,
        random_state: int = 0,
        what: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        super().__init__(what, exclude)
        self.hidden = hidden
        self.alpha = alpha
        self.random_state = random_state

    def make_model(self) -> Any:
        """Return the learner."""
        return MLPRegressor(
            hidden_layer_sizes=tuple(self.hidden), alpha=self.alpha, solver="lbfgs", max_iter=500, max_fun=20000,
            random_state=self.random_state,
        )  # fmt: skip


class Plain(FeatureModel):
    """Any scikit-learn regressor on the frame's numeric columns, gaps filled with training medians.

    Parameters
    ----------
    estimator : estimator
        Is cloned for every fit and given a DataFrame with the frame's column names.
    """

    def __init__(self, estimator: Any = None, what: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> None:
        super().__init__(what, exclude)
        self.estimator = estimator

    def make_model(self) -> Any:
        """Return a clone of the estimator that is given named columns."""
        return _Named(clone(self.estimator), self.columns_)


class _Named:
    """FileReader an estimator its columns by name."""

    def __init__(self, estimator: Any, columns: Sequence[str]) -> None:
        self.estimator = estimator
        self.columns = list(columns)

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Named:
        self.estimator.fit(pd.DataFrame(X, columns=self.columns), y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.estimator.predict(pd.DataFrame(X, columns=self.columns)))


class _Trees(FeatureModel):
    """Trees on all features."""

    learner: ClassVar[type]
    holds = (FOREST_ARRAYS,)

    def __init__(
        self,
        n_estimators: int = 200,
        max_features: float = 0.5,
        min_samples_leaf: int = 1,
        max_depth: int | None = 12,
        random_state: int = 0,
        what: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        super().__init__(what, exclude)
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.random_state = random_state

    def make_model(self) -> Any:
        """Return the learner."""
        return self.learner(
            self.n_estimators, max_features=self.max_features, min_samples_leaf=self.min_samples_leaf,
            max_depth=self.max_depth, random_state=self.random_state, n_jobs=1,
        )  # fmt: skip


class Forest(_Trees):
    """Random forest on all features."""

    learner = RandomForestRegressor


class ExtraTrees(_Trees):
    """Extremely randomised trees on all features."""

    learner = ExtraTreesRegressor


class Boosting(FeatureModel):
    """Gradient boosting of histogram trees on ln S; gaps go their own way in every split.

    Parameters
    ----------
    max_iter, learning_rate, max_leaf_nodes, min_samples_leaf, l2_regularization, max_features
        As in scikit-learn's HistGradientBoostingRegressor.
    random_state : int
        Seed.
    """

    takes_nan = True
    holds = (BOOSTING_ARRAYS,)

    def __init__(
        self,
        max_iter: int = 300,
        learning_rate: float = 0.06,
        max_leaf_nodes: int = 8,
        min_samples_leaf: int = 4,
        l2_regularization: float = 1.0,
        max_features: float = 0.3,
        random_state: int = 0,
        what: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        super().__init__(what, exclude)
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.random_state = random_state

    def make_model(self) -> Any:
        """Return the learner."""
        return HistGradientBoostingRegressor(
            max_iter=self.max_iter, learning_rate=self.learning_rate, max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self.min_samples_leaf, l2_regularization=self.l2_regularization,
            max_features=self.max_features, early_stopping=False, random_state=self.random_state,
        )  # fmt: skip

    def needed(self) -> tuple[str, ...]:
        """Return stall shares where only they, or they too, are asked for."""
        return ("stall_memory_wait",) if self.what is not None and "stalls" in self.what else ()
