"""Stall shares, the verdict that follows from them, comparison of profiles."""
