"""Trained models: stored, listed, asked about sets of jobs, and the verdict that follows.

Start with `models`, then `jobs` for one prediction.
"""
