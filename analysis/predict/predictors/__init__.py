"""Every predictor as a scikit-learn estimator of ln S, from one number to the structured default.

Start with `registry`, which names them all, then `base`.
"""
