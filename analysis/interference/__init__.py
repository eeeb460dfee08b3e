"""Slowdown, matrices, sharing metrics and checks of the data."""
