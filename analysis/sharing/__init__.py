"""Queueing model of an SM and of the ways in which jobs share a GPU; makes the simulated sample."""
