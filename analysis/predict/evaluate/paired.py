"""Is one predictor better than another by more than chance? Paired over folds, and how much a figure moves by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from analysis.predict.evaluate.metrics import absolute_percentage_errors

#: With fewer folds than this no difference can be told from chance at 5 %: the least p of the test is above it.
LEAST_FOLDS = 6

_COLUMNS = ["predictor", "folds", "difference", "better_in", "p_value", "p_holm"]


def fold_errors(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the error of each predictor in each fold.

    Parameters
    ----------
    predictions : pd.DataFrame
        Out-of-fold predictions: predictor, seed, fold, measured and predicted (S).

    Returns
    -------
    pd.DataFrame
        Index (seed, fold), one column a predictor, mape in percent.
    """
    errors = absolute_percentage_errors(
        predictions["measured"].to_numpy(dtype=np.float64), predictions["predicted"].to_numpy(dtype=np.float64)
    )
    long = predictions[["predictor", "seed", "fold"]].assign(error=errors)
    return long.pivot_table(index=["seed", "fold"], columns="predictor", values="error", aggfunc="mean")


def paired_tests(predictions: pd.DataFrame, against: str) -> pd.DataFrame:
    """Compare every predictor with one, fold by fold.

    Wilcoxon's signed-rank test on the folds' errors, corrected for the number of comparisons (Holm, Scandinavian
    Journal of Statistics 6, 1979). Folds of different seeds share rows and training sets overlap, so that the p values
    are too small rather than too large (Nadeau and Bengio, Machine Learning 52, 2003).

    Parameters
    ----------
    predictions : pd.DataFrame
        As for `fold_errors`.
    against : str
        The predictor that the others are compared with.

    Returns
    -------
    pd.DataFrame
        predictor, folds, difference (mean over folds of its error less that of `against`, percentage points; above 0:
        it is worse), better_in (folds in which `against` is better), p_value, p_holm; both NaN with fewer than six
        folds, or where no fold differs. The smallest difference first.
    """
    errors = fold_errors(predictions)
    if against not in errors:
        return pd.DataFrame(columns=_COLUMNS)
    table = _compared(errors, [(str(name), against) for name in errors.columns.drop(against)])
    return table[_COLUMNS].sort_values("difference", kind="stable").reset_index(drop=True)


def compared(predictions: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Compare chosen pairs of predictors, fold by fold, corrected for the number of pairs as in `paired_tests`.

    Parameters
    ----------
    predictions : pd.DataFrame
        As for `fold_errors`.
    pairs : sequence of (str, str)
        Who is compared with whom.

    Returns
    -------
    pd.DataFrame
        The columns of `paired_tests` and against, in the order of the pairs.
    """
    return _compared(fold_errors(predictions), pairs)


def _compared(errors: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> pd.DataFrame:
    rows = []
    for name, against in pairs:
        both = errors[[name, against]].dropna()
        difference = (both[name] - both[against]).to_numpy(dtype=np.float64)
        tested = len(difference) >= LEAST_FOLDS and bool(np.any(np.abs(difference) > 1e-12))
        rows.append(
            {
                "predictor": name,
                "against": against,
                "folds": len(difference),
                "difference": float(difference.mean()) if len(difference) else np.nan,
                "better_in": int((difference > 0).sum()),
                "p_value": float(stats.wilcoxon(difference).pvalue) if tested else np.nan,
            }
        )
    table = pd.DataFrame(rows, columns=["predictor", "against", "folds", "difference", "better_in", "p_value"])
    return table.assign(p_holm=holm(table["p_value"].to_numpy(dtype=np.float64)))


def holm(p_values: np.ndarray) -> np.ndarray:
    """Return p values corrected for their number by Holm's step-down; NaN stays NaN and doesn't count.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    out = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    scaled = p_values[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0) if len(order) else scaled
    return out


def by_seed(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return how much each predictor's error moves with the seed of the division.

    Returns
    -------
    pd.DataFrame
        predictor, seeds, mape_low, mape_high (least and largest mape over the seeds, percent), spread (percentage
        points). Empty where there is one seed.
    """
    errors = absolute_percentage_errors(
        predictions["measured"].to_numpy(dtype=np.float64), predictions["predicted"].to_numpy(dtype=np.float64)
    )
    long = predictions[["predictor", "seed"]].assign(error=errors)
    seeds = long.groupby(["predictor", "seed"], sort=False)["error"].mean().reset_index()
    table = seeds.groupby("predictor", sort=False)["error"].agg(["size", "min", "max"]).reset_index()
    table.columns = pd.Index(["predictor", "seeds", "mape_low", "mape_high"])
    table["spread"] = table["mape_high"] - table["mape_low"]
    return table[table["seeds"] > 1].reset_index(drop=True)
