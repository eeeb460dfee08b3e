"""Exact mean value analysis of a small closed network: the yardstick for the approximate one."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def solve_exact(population: tuple[int, ...], demand: Floats, delay: Floats) -> Floats:
    """Return each class's throughput, by recursion over all smaller populations.

    The number of steps is the product of the populations, so this is for a few customers only. Reiser and Lavenberg,
    Mean-value analysis of closed multichain queueing networks, JACM 27(2), 1980.

    Parameters
    ----------
    population : tuple of int
        Customers of each class.
    demand : ndarray (k, s)
        Service demands, cycles.
    delay : ndarray (k,)
        Cycles at no station.

    Returns
    -------
    ndarray (k,)
        Cycles' worth of work done by each class, that is its throughput.
    """
    classes, stations = demand.shape
    queues: dict[tuple[int, ...], Floats] = {}
    throughput = np.zeros(classes)
    for here in itertools.product(*(range(count + 1) for count in population)):
        queue = np.zeros(stations)
        throughput = np.zeros(classes)
        for out in range(classes):
            if not here[out]:
                continue
            fewer = tuple(count - (place == out) for place, count in enumerate(here))
            residence = demand[out] * (1 + queues[fewer])
            cycle = delay[out] + residence.sum()
            throughput[out] = here[out] / cycle if cycle > 0 else 0.0
            queue += throughput[out] * residence
        queues[here] = queue
    return throughput
