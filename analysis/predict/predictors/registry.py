"""Every predictor by name: what it is called, where it comes from, and how to make one."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sklearn.base import clone

from analysis.errors import UsageError
from analysis.predict.predictors import closed_form, effects, learners, published, whitebox
from analysis.predict.predictors.base import Predictor
from analysis.predict.predictors.ensemble import Average, StallScope
from analysis.predict.predictors.learners import Plain

Kind = Literal["reference", "published", "learner", "stallscope", "own"]


@dataclass(frozen=True)
class PredictorSpec:
    """A predictor that can be asked for by name.

    Attributes
    ----------
    name : str
        Name on the command line and in tables.
    title : str
        What people call it.
    kind : str
        ``reference`` (closed forms and medians), ``published``, ``learner``, ``stallscope``, or ``own`` (the user's).
    make : callable
        Returns a fresh, unfitted estimator.
    protocols : tuple of str
        Protocols it makes sense under; all when empty.
    calibrate : bool
        Whether intervals are calibrated for it by default.
    white_box : bool
        Whether it reads the white-box prediction. That shares its model with StallScope's own simulator, so on what
        that made such a predictor has no figure; others' simulators are judges like any measurement.
    """

    name: str
    title: str
    kind: Kind
    make: Callable[[], Any]
    protocols: tuple[str, ...] = ()
    calibrate: bool = False
    white_box: bool = False

    @property
    def source(self) -> str:
        """First paragraph of the estimator's documentation, which names its source."""
        text = inspect.getdoc(type(self.make())) or ""
        return " ".join(text.split("\n\nParameters")[0].split())


DEFAULT = "stallscope"

_SPECS = (
    PredictorSpec("no-interference", "No interference (S = 1)", "reference", closed_form.NoInterference),
    PredictorSpec("train-median", "Median of the training rows", "reference", closed_form.TrainMedian),
    PredictorSpec("equal-share", "Equal share (S = k)", "reference", closed_form.EqualShare),
    PredictorSpec("sm-sum", "Sum of SM utilisation", "reference", closed_form.SmSum),
    PredictorSpec("roofline-sum", "Roofline sum", "reference", closed_form.RooflineSum),
    PredictorSpec("gpulet", "gpulet, fitted", "published", closed_form.Gpulet),
    PredictorSpec("gpulet-2080ti", "gpulet, coefficients of the RTX 2080 Ti", "published",
                  lambda: closed_form.Gpulet("RTX 2080 Ti")),
    PredictorSpec("gpulet-3080", "gpulet, coefficients of the RTX 3080", "published",
                  lambda: closed_form.Gpulet("RTX 3080")),
    PredictorSpec("xu-forest", "Xu et al., random forest", "published", published.XuForest),
    PredictorSpec("kace-linear", "KACE, linear regression", "published", published.KaceLinear),
    PredictorSpec("kace-forest", "KACE, random forest", "published", published.KaceForest),
    PredictorSpec("effects", "Victim and aggressor effects", "reference", effects.Effects),
    PredictorSpec("low-rank-2", "Matrix completion, rank 2 (Gavel)", "published", lambda: effects.LowRank(2)),
    PredictorSpec("low-rank-4", "Matrix completion, rank 4 (Gavel)", "published", lambda: effects.LowRank(4)),
    PredictorSpec("additive-pairs", "Sum of pairwise losses", "reference", lambda: effects.Composition("additive"),
                  ("pairs-to-k",)),
    PredictorSpec("product-pairs", "Product of pairwise slowdowns", "reference",
                  lambda: effects.Composition("product"), ("pairs-to-k",)),
    PredictorSpec("copy-gpu", "Copy from another GPU", "reference", effects.CopyOtherGpu, ("unseen-gpu",)),
    PredictorSpec("knn", "Nearest neighbours", "learner", learners.Neighbours),
    PredictorSpec("ridge", "Ridge regression", "learner", learners.RidgeModel),
    PredictorSpec("svr", "Support vector regression", "learner", learners.SupportVectors),
    PredictorSpec("random-forest", "Random forest", "learner", learners.Forest),
    PredictorSpec("extra-trees", "Extra trees", "learner", learners.ExtraTrees),
    PredictorSpec("mlp", "Multilayer perceptron", "learner", learners.Network),
    PredictorSpec("boosting", "Gradient boosting, counters without stalls", "learner",
                  lambda: learners.Boosting(what=learners.COUNTERS), calibrate=True),
    PredictorSpec("boosting-stalls", "Gradient boosting, stalls alone", "learner",
                  lambda: learners.Boosting(what=learners.STALLS), calibrate=True),
    PredictorSpec("boosting-both", "Gradient boosting, counters and stalls", "learner",
                  lambda: learners.Boosting(what=(*learners.COUNTERS, "stalls")), calibrate=True),
    PredictorSpec("white-box", "White box, without training", "reference", whitebox.WhiteBox, calibrate=True,
                  white_box=True),
    PredictorSpec("boosting-white-box", "Gradient boosting with the white box", "learner", whitebox.boosting,
                  calibrate=True, white_box=True),
    PredictorSpec(DEFAULT, "StallScope", "stallscope", StallScope, calibrate=True),
)  # fmt: skip

#: Predictors by name, in the order of the comparison table.
PREDICTORS: Mapping[str, PredictorSpec] = {spec.name: spec for spec in _SPECS}


def storable() -> frozenset[str]:
    """Return the dotted paths of all types that a stored model may hold: predictors, averages, and what they hold."""
    found: set[str] = set()
    todo: list[type | str] = [Average, *(type(spec.make()) for spec in _SPECS)]
    while todo:
        one = todo.pop()
        path = one if isinstance(one, str) else f"{one.__module__}.{one.__qualname__}"
        if path not in found:
            found.add(path)
            todo.extend(getattr(one, "holds", ()))
    return frozenset(found)


def get(name_or_path: str) -> PredictorSpec:
    """Return a predictor by its name, or a researcher's own as ``package.module:Class``.

    Parameters
    ----------
    name_or_path : str
        A name of `PREDICTORS`, or an import path to a class with scikit-learn's ``fit`` and ``predict``; it is given
        the frame's numeric columns (all columns if it derives from `base.Predictor`) and ln S.

    Raises
    ------
    UsageError
        If there is no such predictor, or it can't be imported or made without arguments.
    """
    if name_or_path in PREDICTORS:
        return PREDICTORS[name_or_path]
    module_name, colon, class_name = name_or_path.partition(":")
    if not colon:
        raise UsageError(
            f"there is no predictor {name_or_path!r}",
            f"Choose one of {', '.join(PREDICTORS)}, or give your own as package.module:Class.",
        )
    try:
        made = getattr(importlib.import_module(module_name), class_name)
        estimator = made()
        clone(estimator)
    except Exception as error:
        raise UsageError(
            f"the predictor {name_or_path!r} can't be made: {type(error).__name__}: {error}",
            "Give a class that can be imported, takes no required arguments, and has scikit-learn's get_params.",
        ) from error
    if not (callable(getattr(estimator, "fit", None)) and callable(getattr(estimator, "predict", None))):
        raise UsageError(f"{name_or_path!r} has no fit and predict", "Give a class with scikit-learn's interface.")
    if isinstance(estimator, Predictor):
        return PredictorSpec(name_or_path, name_or_path, "own", made, calibrate=True)
    return PredictorSpec(name_or_path, name_or_path, "own", lambda: Plain(made()), calibrate=True)
