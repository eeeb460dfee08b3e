"""Comparisons of two predictors: by hand, corrected for their number, silent where folds are too few."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.predict.evaluate.paired import by_seed, fold_errors, holm, paired_tests


def _predictions(folds: int, seeds: int = 1) -> pd.DataFrame:
    """Two members a fold; `a` is off by 10 %, `b` by 20 % or, in the first fold, by 5 %, `c` exactly as `a`."""
    rows = []
    for seed in range(seeds):
        for fold in range(folds):
            for name, off in (("a", 0.1), ("b", 0.05 if fold == 0 else 0.2 + 0.001 * fold + 0.01 * seed), ("c", 0.1)):
                rows += [(name, seed, fold, 2.0, 2.0 * (1 + off)), (name, seed, fold, 1.0, 1.0 - off)]
    return pd.DataFrame(rows, columns=["predictor", "seed", "fold", "measured", "predicted"])


def test_errors_by_fold() -> None:
    found = fold_errors(_predictions(3))
    assert found["a"].tolist() == pytest.approx([10.0] * 3)
    assert found["b"].tolist() == pytest.approx([5.0, 20.1, 20.2])


def test_difference_wins_and_test_are_those_of_the_folds() -> None:
    found = paired_tests(_predictions(8), "a").set_index("predictor")
    difference = np.array([-5.0, *(10.0 + 0.1 * fold for fold in range(1, 8))])
    assert found.loc["b", "difference"] == pytest.approx(difference.mean())
    assert found.loc["b", "better_in"] == 7
    assert found.loc["b", "p_value"] == pytest.approx(stats.wilcoxon(difference).pvalue)
    assert np.isnan(found.loc["c", "p_value"])
    assert found.loc["b", "p_holm"] == pytest.approx(found.loc["b", "p_value"]), "the one that is equal doesn't count"


def test_few_folds_prove_nothing() -> None:
    found = paired_tests(_predictions(5), "a")
    assert found["p_value"].isna().all()
    assert found["difference"].notna().all()


def test_an_absent_reference_compares_nothing() -> None:
    assert paired_tests(_predictions(8), "nobody").empty


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, np.nan, 0.04, 0.03])).tolist() == pytest.approx([0.03, np.nan, 0.06, 0.06], nan_ok=True)
    assert holm(np.array([0.5, 0.9])).tolist() == [1.0, 1.0]
    assert holm(np.array([])).tolist() == []


def test_movement_by_seed() -> None:
    found = by_seed(_predictions(4, seeds=3)).set_index("predictor")
    assert found.loc["a", "spread"] == pytest.approx(0.0)
    assert found.loc["b", "spread"] == pytest.approx(0.75 * 2.0)
    assert by_seed(_predictions(4)).empty
