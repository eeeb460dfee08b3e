"""Comparing predictors: protocols, folds, intervals, metrics, and where the work runs.

Start with `evaluate`; `protocols` says how rows are divided.
"""
