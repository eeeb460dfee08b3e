"""What a stored estimator may be made of: a validator for every type, without which a type is neither stored nor read.

A model file comes from anywhere. Libraries check that arrays have the right type and trust what stands in them: a tree
whose child lies beyond its nodes ends the process at the first prediction. Nothing is computed with an estimator before
everything in it was looked at here, and what is bounded by the size of its file stays bounded in time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from analysis.errors import ModelRefusedError
from analysis.predict.predictors.registry import storable

Validator = Callable[[Any], None]

#: Most columns, trees and hidden layers of any estimator here, with room.
_COLUMNS, _TREES, _LAYERS = 100_000, 5_000, 50
_DEEPEST = 5_000

#: Attributes of which NaN is a value: what stands for an absent feature, or for having nothing to say.
_MAY_BE_NAN = frozenset({"fill_", "usual_", "profiles_", "caps_", "beside_", "train_score_", "validation_score_"})
#: Limits of an interval, and options, in which infinity is one.
_MAY_BE_INFINITE = frozenset({"low", "high"})

_AGAIN = "Train the model again with this version of StallScope."


class _UnsoundError(Exception):
    """Something in an estimator is not what its type has."""


def check(estimator: Any) -> None:
    """Look at everything an estimator holds.

    Parameters
    ----------
    estimator : object
        As it was fitted here, or read from a file.

    Raises
    ------
    ModelRefusedError
        If it holds a type without a validator, or something that its type can't have.
    """
    try:
        _walk(estimator, "the model", [], {})
    except _UnsoundError as error:
        raise ModelRefusedError(f"the model file holds what no trained model has: {error}", _AGAIN) from error
    except (AttributeError, TypeError, ValueError, IndexError, KeyError, OverflowError) as error:
        raise ModelRefusedError(
            f"the model file lacks a part of a trained model ({type(error).__name__})", _AGAIN
        ) from error


def allowed(schema: Any) -> list[str]:
    """Return the types that a skops schema names and no validator knows, or that it would build in another way."""
    strange: set[str] = set()
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if "__class__" in node:
                path, how = f"{node.get('__module__')}.{node['__class__']}", str(node.get("__loader__"))
                if how not in _built(path):
                    strange.add(path)
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    return sorted(strange)


def _built(path: str) -> tuple[str, ...]:
    if path in _DATA:
        return _DATA[path]
    if path in VALIDATORS:
        return (_LOADERS.get(path, "ObjectNode"),)
    return ("NdArrayNode",) if path.startswith("numpy.") and path.count(".") == 1 else ()


#: How skops builds plain data.
_DATA: Mapping[str, tuple[str, ...]] = {
    "builtins.dict": ("DictNode",),
    "builtins.list": ("ListNode",),
    "builtins.tuple": ("TupleNode", "TypeNode"),
    "builtins.str": ("JsonNode", "TypeNode"),
    "builtins.int": ("JsonNode", "TypeNode"),
    "builtins.float": ("JsonNode", "TypeNode"),
    "builtins.bool": ("JsonNode", "TypeNode"),
    "numpy.random._generator.Generator": ("RandomGeneratorNode",),
    "numpy.random.mtrand.RandomState": ("RandomStateNode",),
}
_LOADERS: Mapping[str, str] = {
    "sklearn.tree._tree.Tree": "TreeNode",
    "sklearn._loss._loss.CyHalfSquaredError": "LossNode",
}


def _walk(value: Any, name: str, above: list[int], seen: dict[int, Any]) -> None:
    if id(value) in above:
        raise _UnsoundError(f"{name} holds itself")
    if len(above) > _DEEPEST // 50:
        raise _UnsoundError("parts within parts without an end")
    if value is None or isinstance(value, bool | str | bytes | int | type):
        return
    if isinstance(value, float | np.generic):
        _check_numbers(np.asarray(value), name)
    elif isinstance(value, np.ndarray):
        _check_numbers(value, name)
        if value.dtype == object and any(not isinstance(one, str | None | float | int) for one in value.flat):
            raise _UnsoundError(f"{name} holds objects where names are expected")
    elif id(value) in seen:
        return
    elif isinstance(value, dict):
        seen[id(value)] = value
        for key, one in value.items():
            _walk(key, name, [*above, id(value)], seen)
            _walk(one, name, [*above, id(value)], seen)
    elif isinstance(value, list | tuple | set | frozenset):
        seen[id(value)] = value
        for one in value:
            _walk(one, name, [*above, id(value)], seen)
    elif not isinstance(value, np.random.RandomState | np.random.Generator):
        path = f"{type(value).__module__}.{type(value).__qualname__}"
        if path not in VALIDATORS:
            raise _UnsoundError(f"{path}, of which nothing here can say whether it is sound")
        seen[id(value)] = value
        # An average keeps the predictors that it was made of beside those that it fitted; they have learnt nothing.
        if not (above and _is_unfitted(value)):
            VALIDATORS[path](value)
        for attribute, one in getattr(value, "__dict__", {}).items():
            _walk(one, attribute, [*above, id(value)], seen)


def _is_unfitted(value: Any) -> bool:
    """Say whether it is an estimator without any fitted attribute, as scikit-learn names them."""
    held = getattr(value, "__dict__", {})
    return hasattr(value, "get_params") and not any(name.endswith("_") for name in held)


def _check_numbers(values: np.ndarray[Any, Any], name: str) -> None:
    if values.dtype.kind != "f" or name in _MAY_BE_INFINITE:
        return
    bad = np.isinf(values) if name in _MAY_BE_NAN else ~np.isfinite(values)
    if bad.any():
        raise _UnsoundError(f"{name} is not finite")


def _need(held: object, what: str) -> None:
    if not held:
        raise _UnsoundError(what)


def _whole(value: Any, least: int, most: int, what: str) -> int:
    _need(isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value <= most, what)
    return int(value)


def _plain(_: Any) -> None:
    """Of types that are nothing but their attributes, which are looked at one by one."""


def _fitted(model: Any) -> int:
    """Return the number of columns; options that decide about threads and output must be harmless."""
    _need(getattr(model, "n_jobs", None) in (None, 1), "n_jobs asks for threads of its own")
    _need(not getattr(model, "verbose", 0), "verbose asks for output")
    return _whole(model.n_features_in_, 1, _COLUMNS, "n_features_in_ is no number of columns")


def _forest(model: Any) -> None:
    columns = _fitted(model)
    _need(model.n_outputs_ == 1, "the forest has more than one target")
    _need(isinstance(model.estimators_, list), "estimators_ is no list")
    _need(0 < len(model.estimators_) <= _TREES, f"{len(model.estimators_):,} trees")
    for tree in model.estimators_:
        _need(type(tree).__module__ == "sklearn.tree._classes", "a part of the forest is no tree")
        _need(tree.n_features_in_ == columns, "a tree reads other columns than its forest")


def _decision_tree(model: Any) -> None:
    # The pattern of a forest's trees is not fitted itself.
    if "tree_" not in vars(model):
        return
    columns = _fitted(model)
    _need(model.n_outputs_ == 1, "the tree has more than one target")
    tree = model.tree_
    _need(f"{type(tree).__module__}.{type(tree).__qualname__}" == "sklearn.tree._tree.Tree", "tree_ is no tree")
    _need(int(tree.n_features) == columns, "the tree reads other columns than it says")


def _tree(tree: Any) -> None:
    count = int(tree.node_count)
    # Before any array of it is looked at: they are views of as many nodes as this number says.
    _need(0 < count <= int(tree.capacity), "node_count is beyond the nodes of the tree")
    _need(int(tree.n_outputs) == 1, "a tree has more than one target")
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    feature, threshold, value = np.asarray(tree.feature), np.asarray(tree.threshold), np.asarray(tree.value)
    _need(value.shape[:2] == (count, 1), "values are not one a node")
    _need(np.isfinite(value).all(), "a value of a tree is not finite")
    leaf = left == -1
    _need((right[leaf] == -1).all() and not (right[~leaf] == -1).any(), "a node has one child")
    own = np.arange(count)
    for child in (left, right):
        inside = child[~leaf]
        # Children stand after their parent, so that no path comes back to where it was.
        _need(((inside > own[~leaf]) & (inside < count)).all(), "a child lies beyond the nodes of its tree")
    _need(((feature[~leaf] >= 0) & (feature[~leaf] < int(tree.n_features))).all(), "a tree reads columns beyond it")
    _need(np.isfinite(threshold[~leaf]).all(), "a threshold of a tree is not finite")
    _need(_depth(left, right, leaf) <= _DEEPEST, "a tree is deeper than any that is trained")


def _depth(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], leaf: np.ndarray[Any, Any]) -> int:
    level, depth = np.array([0]), 0
    while len(level) and depth <= _DEEPEST:
        inner = level[~leaf[level]]
        # A node that two parents share would make this grow without an end.
        level = np.unique(np.concatenate([left[inner], right[inner]])).astype(np.int64)
        depth += 1
    return depth


def _boosting(model: Any) -> None:
    columns = _fitted(model)
    _need(model._n_features == columns, "the boosting reads other columns than it says")
    _need(model.n_trees_per_iteration_ == 1, "the boosting has more than one target")
    _need(np.shape(model._baseline_prediction) == (1, 1), "the baseline is not one number")
    _need(model._preprocessor is None, "the boosting holds a preprocessor")
    _need(isinstance(model._predictors, list) and len(model._predictors) <= _TREES, "too many trees")
    for step in model._predictors:
        _need(isinstance(step, list) and len(step) == 1, "a step of the boosting is not one tree")
        _need(type(step[0]).__name__ == "TreePredictor", "a step of the boosting is no tree")
        _boosted(step[0], columns)


#: As scikit-learn's own record of a node.
_NODE = (
    "value", "count", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "gain", "depth",
    "is_leaf", "bin_threshold", "is_categorical", "bitset_idx",
)  # fmt: skip


def _boosted(tree: Any, columns: int = _COLUMNS) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    nodes = tree.nodes
    _need(isinstance(nodes, np.ndarray) and nodes.ndim == 1 and len(nodes) > 0, "nodes are no array of nodes")
    _need(nodes.dtype == PREDICTOR_RECORD_DTYPE and set(_NODE) <= set(nodes.dtype.names), "nodes of another kind")
    inner = nodes["is_leaf"] == 0
    own = np.arange(len(nodes))
    for side in ("left", "right"):
        child = nodes[side][inner].astype(np.int64)
        _need(((child > own[inner]) & (child < len(nodes))).all(), "a child lies beyond the nodes of its tree")
    feature = nodes["feature_idx"][inner]
    _need(((feature >= 0) & (feature < columns)).all(), "a tree reads columns beyond it")
    _need(np.isfinite(nodes["value"]).all(), "a value of a tree is not finite")
    _need(not np.isnan(nodes["num_threshold"][inner]).any(), "a threshold of a tree is no number")
    _need(not nodes["is_categorical"][inner].any(), "a tree splits by categories, which no column has")
    for name in ("binned_left_cat_bitsets", "raw_left_cat_bitsets"):
        bits = getattr(tree, name)
        _need(isinstance(bits, np.ndarray) and bits.dtype == np.uint32 and bits.shape[1:] == (8,), f"{name} is damaged")


def _bins(mapper: Any) -> None:
    _need(mapper.known_categories is None or not any(mapper.known_categories), "the bins hold categories")
    _need(not np.asarray(mapper.is_categorical_).any(), "the bins hold categories")
    _need(len(mapper.is_categorical_) == len(mapper.n_bins_non_missing_), "the bins are of other columns")


def _linear(model: Any) -> None:
    columns = _fitted(model)
    _need(np.shape(model.coef_) == (columns,), "the coefficients are not one a column")
    _need(np.ndim(model.intercept_) == 0, "the intercept is not one number")


def _nearest(model: Any) -> None:
    columns = _fitted(model)
    # Indexes of scikit-learn are arrays that nothing checks; only the search through all rows is stored.
    _need(model._fit_method == "brute" and model._tree is None, "the neighbours hold an index")
    _need(model._fit_X.ndim == 2 and model._fit_X.shape[1] == columns, "the neighbours are of other columns")
    _need(len(model._fit_X) == len(model._y) == model.n_samples_fit_, "the neighbours are not one a value")
    _whole(model.n_neighbors, 1, max(len(model._fit_X), 1), "n_neighbors is beyond the rows")


def _support(model: Any) -> None:
    columns = _fitted(model)
    vectors = model.support_vectors_
    count = len(vectors)
    _need(vectors.ndim == 2 and vectors.shape[1] == columns and vectors.dtype == np.float64, "vectors of other columns")
    _need(model._dual_coef_.shape == (1, count) and model.dual_coef_.shape == (1, count), "weights not one a vector")
    _need(model._dual_coef_.dtype == np.float64, "weights of another kind")
    _need(model.support_.shape == (count,) and model.support_.dtype == np.int32, "places not one a vector")
    held = model._n_support
    _need(held.dtype == np.int32 and held.shape == (2,) and held[0] == count and held.min() >= 0, "another count")
    _need(model._intercept_.shape == (1,) and not len(model._probA) and not len(model._probB), "another intercept")
    _need(not model._sparse and isinstance(model.kernel, str), "the vectors are of another kind")
    _need(len(model.shape_fit_) == 2 and model.shape_fit_[1] == columns, "the vectors are of other columns")
    _whole(model.cache_size, 1, 4096, "cache_size is beyond the memory")
    _whole(model.degree, 0, 100, "degree is beyond any kernel")


def _network(model: Any) -> None:
    width = _fitted(model)
    _need(len(model.coefs_) == len(model.intercepts_) == model.n_layers_ - 1 <= _LAYERS, "other layers than it says")
    for weights, bias in zip(model.coefs_, model.intercepts_, strict=True):
        _need(weights.ndim == 2 and weights.shape[0] == width, "a layer does not fit the one before")
        _need(bias.shape == (weights.shape[1],), "a layer does not fit its own constants")
        width = weights.shape[1]
    _need(width == 1 and model.n_outputs_ == 1, "the network has more than one target")


def _pairs(model: Any) -> None:
    count = len(model.y_)
    if not getattr(model, "by_job_", False):
        _need(model.cholesky_.shape == (count, count), "the covariance is not that of its rows")
        _need((np.diag(model.cholesky_) > 0).all(), "the covariance is none")
    else:
        features = model.features_
        _features(features)
        _need(model.unsure_.shape == (features.count * (features.count + 1) // 2,), "the covariance is not its half")
        _need(model.known_.shape == (len(model.jobs_.name),), "what is known is not said of every job")
        _need(features.mode == model.mode, "the features are those of another process")
        _need(len(features.to_left) == len(model.jobs_.name), "the features are of other jobs")
    _need(len(model.i_) == len(model.j_) == count, "the pairs are not one a row")
    jobs = len(model.jobs_.name)
    for places in (model.i_, model.j_):
        _need(places.dtype.kind == "i", "the pairs are no places")
        _need(not count or (places.min() >= 0 and places.max() < jobs), "a pair names a job beyond those it knows")
    _need(model.jobs_.x.ndim == 2 and len(model.jobs_.x) == jobs, "the jobs' values are not one a job")


def _features(model: Any) -> None:
    _need(type(model).__name__ == "Features", "the features are none")
    _need(model.mode in ("direct", "symmetric", "antisymmetric"), "there is no such process")
    jobs, kept = len(model.to_left), len(model.of_left)
    _need(len(model.to_effects) == (2 if model.mode == "direct" else 1), "effects are missing")
    for effects in model.to_effects:
        _need(effects.shape == (jobs, jobs), "the effects are not one a job")
    _need(model.to_left.shape == model.to_right.shape == (jobs, kept), "the eigenvectors are not those of the jobs")
    _need(model.of_left.shape == model.of_right.shape == (kept,), "the eigenvalues are not one a vector")
    _whole(model.kept, 0, kept**2, "kept is no number of products")
    _need(model.select.shape == (kept**2, model.kept), "there are fewer products")


def _columns(model: Any) -> None:
    """Of the predictors that read columns: one filling value, mean and scale a column."""
    names = model.columns_
    _need(isinstance(names, list) and all(isinstance(one, str) for one in names), "columns_ are no names")
    _need(len(names) <= _COLUMNS, "too many columns")
    for what in ("fill_", "mean_", "scale_"):
        held = getattr(model, what, None)
        _need(held is None or np.shape(held) == (len(names),), f"{what} is not one a column")
    _need(not (np.asarray(getattr(model, "scale_", 1.0)) == 0).any(), "a column has no scale")


def _mixture(model: Any) -> None:
    _need(isinstance(model.parts_, list) and 0 < len(model.parts_) <= _LAYERS, "a mixture of nothing")
    for part in model.parts_:
        _need(isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], str), "a part without a name")
        path = f"{type(part[1]).__module__}.{type(part[1]).__qualname__}"
        _need(path in storable(), "a part that is no predictor")
    _need(np.shape(model.weights_) == (len(model.parts_),), "the weights are not one a part")


_OWN = "analysis.predict.predictors."
_SKLEARN: Mapping[str, Validator] = {
    "sklearn.ensemble._forest.ExtraTreesRegressor": _forest,
    "sklearn.ensemble._forest.RandomForestRegressor": _forest,
    "sklearn.tree._classes.DecisionTreeRegressor": _decision_tree,
    "sklearn.tree._classes.ExtraTreeRegressor": _decision_tree,
    "sklearn.tree._tree.Tree": _tree,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor": _boosting,
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor": _boosted,
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper": _bins,
    "sklearn._loss.loss.HalfSquaredError": _plain,
    "sklearn._loss.link.IdentityLink": _plain,
    "sklearn._loss.link.Interval": _plain,
    "sklearn._loss._loss.CyHalfSquaredError": _plain,
    "sklearn.linear_model._base.LinearRegression": _linear,
    "sklearn.linear_model._ridge.RidgeCV": _linear,
    "sklearn.neighbors._regression.KNeighborsRegressor": _nearest,
    "sklearn.svm._classes.SVR": _support,
    "sklearn.neural_network._multilayer_perceptron.MLPRegressor": _network,
}
_PREDICTORS: Mapping[str, Validator] = {
    **dict.fromkeys(
        ("closed_form.EqualShare", "closed_form.Gpulet", "closed_form.NoInterference", "closed_form.RooflineSum",
         "closed_form.SmSum", "closed_form.TrainMedian", "effects.Composition", "effects.CopyOtherGpu",
         "effects.Effects", "effects.LowRank", "learners._Nearest", "pairgp.Jobs", "pairprofiles.ProfileReader",
         "profilescale.ProfileScale", "published.KaceForest", "published.KaceLinear", "published.ScaledLinear",
         "published.XuForest", "structured.StructuredGP", "whitebox.WhiteBox"),
        _plain,
    ),
    **dict.fromkeys(
        ("learners.Boosting", "learners.ExtraTrees", "learners.Forest", "learners.Neighbours", "learners.Network",
         "learners.RidgeModel", "learners.SupportVectors", "whitebox.WhiteBoxBoosting"),
        _columns,
    ),
    "jobposterior.Features": _features,
    "pairgp.PairGP": _pairs,
    "ensemble.Average": _mixture,
    "ensemble.StallScope": _mixture,
}  # fmt: skip

#: By the dotted path of a type. Another predictor needs an entry, or `to_bytes` refuses to store it.
VALIDATORS: Mapping[str, Validator] = {**_SKLEARN, **{f"{_OWN}{name}": one for name, one in _PREDICTORS.items()}}
