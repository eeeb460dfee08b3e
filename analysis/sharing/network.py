"""Closed queueing networks with several classes, many at once: Bard-Schweitzer, with Chandy and Neuse's correction.

Customers are the resident warps of each job, one cycle of a customer is one instruction. A class's queue as an arriving
customer sees it is that of the network with one customer less (the arrival theorem). Bard and Schweitzer [1]_ guess it
from the queue of the full network; Chandy and Neuse [2]_ solve the smaller networks the same way and correct the guess
by the difference. For a handful of customers plain Bard-Schweitzer is up to a quarter off, one round of correction
brings it within 4 % of exact mean value analysis [3]_.

References
----------
.. [1] P. Schweitzer, Approximate analysis of multiclass closed networks of queues, Int. Conf. on Stochastic Control and
   Optimization, Amsterdam 1979.
.. [2] K. M. Chandy and D. Neuse, Linearizer: a heuristic algorithm for queueing network models of computing systems,
   CACM 25(2), 1982.
.. [3] E. Lazowska, J. Zahorjan, G. S. Graham and K. Sevcik, Quantitative System Performance, 1984, chapters 6 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_STEPS: Final = 4000


@dataclass(frozen=True)
class Solution:
    """What the networks settle at.

    Attributes
    ----------
    throughput : ndarray (b, k)
        Instructions a cycle of each class, for one SM sub-partition that hosts it.
    residence : ndarray (b, k, s)
        Cycles that an instruction spends at each station, waiting and service.
    """

    throughput: Floats
    residence: Floats

    def queue(self) -> Floats:
        """Return the customers at each station (b, k, s), by Little's law."""
        queue: Floats = self.throughput[..., None] * self.residence
        return queue


def solve(
    population: Floats,
    demand: Floats,
    delay: Floats,
    coupling: Floats | None = None,
    weight: Floats | None = None,
    apart: Floats | None = None,
    *,
    corrected: bool = True,
    tolerance: float = 1e-6,
) -> Solution:
    """Solve a batch of closed networks.

    Parameters
    ----------
    population : ndarray (b, k)
        Customers of each class; fractions are averages over time, 0 leaves a class out.
    demand : ndarray (b, k, s)
        Service demand of each class at each station, cycles.
    delay : ndarray (b, k)
        Cycles of a customer's cycle spent at no station.
    coupling : ndarray (b, k, k, s), optional
        Share of the places of class i at which class j is met: 1 in a station that both share, 0 in one that each has
        to itself, between for a partly shared one; 1 on the diagonal. All 1 by default.
    weight : ndarray (b, k, s), optional
        How many places feed the station with each class's customers; only ratios count. All 1 by default. Needs
        `coupling`.
    apart : ndarray (b, k, s), optional
        Cycles by which a demand is smaller than it would be if every place of the machine fed the station, for a class
        that has a part of the places. A customer's own service stays that long as far as the class is elsewhere, so
        that the same customers on fewer places are no faster.
    corrected : bool
        One round of Chandy and Neuse's correction; without it, plain Bard-Schweitzer.
    tolerance : float
        Largest change of a queue, relative to its population, at which the iteration ends.

    Returns
    -------
    Solution
        Throughputs and residence times. No station's utilisation exceeds 1.
    """
    # Batch last: sums over few classes and stations are then sums of long rows, several times faster.
    people, think = np.ascontiguousarray(population.T), np.ascontiguousarray(delay.T)
    work = np.ascontiguousarray(np.moveaxis(demand, 0, 2))
    seen = coupling
    if coupling is not None and weight is not None:
        seen = coupling * weight[:, None, :, :] / weight[:, :, None, :]
    between = None if seen is None else np.ascontiguousarray(np.moveaxis(seen, 0, 3))
    total = think + work.sum(axis=1)
    queue = np.divide(people, total, out=np.zeros_like(people), where=total > 0)[:, None] * work
    more = None if apart is None else np.ascontiguousarray(np.moveaxis(apart, 0, 2))
    network = _Network(people, work, think, between, None, more)
    rate, stay, queue = _core(network, queue, tolerance)
    if corrected:
        network = replace(network, change=_changes(network, queue, tolerance))
        rate, stay, queue = _core(network, queue, tolerance)
    solution = Solution(np.ascontiguousarray(rate.T), np.ascontiguousarray(np.moveaxis(stay, 2, 0)))
    return _bounded(solution, population, demand, delay, coupling)


@dataclass(frozen=True)
class _Network:
    """A batch, the batch as last axis: people, think (k, b), work, apart (k, s, b), coupling, change (k, k, s, b)."""

    people: Floats
    work: Floats
    think: Floats
    coupling: Floats | None
    change: Floats | None
    apart: Floats | None = None

    def take(self, which: npt.NDArray[np.bool_]) -> _Network:
        return _Network(
            self.people[:, which],
            self.work[..., which],
            self.think[:, which],
            None if self.coupling is None else self.coupling[..., which],
            None if self.change is None else self.change[..., which],
            None if self.apart is None else self.apart[..., which],
        )


def _core(network: _Network, queue: Floats, tolerance: float) -> tuple[Floats, Floats, Floats]:
    """Iterate to the fixed point; networks that have settled are taken out of the iteration."""
    people = network.people
    throughput, residence, settled = np.zeros_like(people), np.zeros_like(queue), queue.copy()
    active = np.arange(people.shape[1])
    for step in range(_STEPS):
        stay = network.work * (1 + _arrival(network, queue))
        if network.apart is not None:
            stay += network.apart * np.maximum(1 - _share(queue, network.people), 0.0)
        cycle = network.think + stay.sum(axis=1)
        rate = np.divide(network.people, cycle, out=np.zeros_like(cycle), where=cycle > 0)
        following = rate[:, None] * stay
        # Looking for settled networks costs as much as a step, so it is done now and then.
        if step % 4 == 3:
            off = np.abs(following - queue).max(axis=(0, 1)) > tolerance * np.maximum(network.people.max(axis=0), 1e-9)
            unsettled = int(off.sum())
            if unsettled < 0.75 * off.size:
                places = active[~off]
                throughput[:, places], residence[..., places] = rate[:, ~off], stay[..., ~off]
                settled[..., places] = following[..., ~off]
                if not unsettled:
                    return throughput, residence, settled
                active, following, network = active[off], following[..., off], network.take(off)
                rate, stay = rate[:, off], stay[..., off]
        queue = following
    throughput[:, active], residence[..., active], settled[..., active] = rate, stay, queue
    return throughput, residence, settled


def _arrival(network: _Network, queue: Floats) -> Floats:
    """Return the queue that a customer of each class finds on arrival at each station (k, s, b).

    Without a correction the class itself is short of one customer in proportion and the others stand as they are.
    """
    inverse = np.divide(1.0, network.people, out=np.zeros_like(network.people), where=network.people > 0)
    own = queue * np.minimum(inverse, 1.0)[:, None]
    before: Floats = queue.sum(axis=0) if network.coupling is None else (network.coupling * queue).sum(axis=1)
    ahead = before - own
    if network.change is not None:
        ahead += network.change
        np.maximum(ahead, 0.0, out=ahead)
    return ahead


def _changes(network: _Network, queue: Floats, tolerance: float) -> Floats:
    """Return what the queue ahead of each class differs by from Bard and Schweitzer's guess (k, s, b).

    For each class, the network with one customer less is solved; the shares of all classes at a station in it, less
    those in the full network, are the correction.
    """
    classes = len(network.people)
    share = _share(queue, network.people)
    changes = np.zeros_like(queue)
    for out in range(classes):
        fewer = network.people.copy()
        fewer[out] = np.maximum(fewer[out] - 1, 0.0)
        _, _, smaller = _core(replace(network, people=fewer), share * fewer[:, None], tolerance)
        difference = np.where(fewer[:, None] > 0, _share(smaller, fewer) - share, 0.0) * fewer[:, None]
        if network.coupling is not None:
            difference *= network.coupling[out]
        changes[out] = difference.sum(axis=0)
    return changes


def _share(queue: Floats, people: Floats) -> Floats:
    return np.divide(queue, people[:, None], out=np.zeros_like(queue), where=people[:, None] > 0)


def _bounded(
    solution: Solution, population: Floats, demand: Floats, delay: Floats, coupling: Floats | None
) -> Solution:
    """Take what the correction overshot back to a utilisation of 1.

    The residence at the busiest station grows by what the slower pace leaves over, so that Little's law still holds.
    """
    load = solution.throughput[..., None] * demand
    use = load.sum(axis=1, keepdims=True) if coupling is None else np.einsum("bijs,bjs->bis", coupling, load)
    use = np.where(demand > 0, use, 0.0)
    worst = use.max(axis=2)
    if not np.any(worst > 1):
        return solution
    slower = solution.throughput / np.maximum(worst, 1.0)
    residence = solution.residence.copy()
    cycle = np.divide(population, slower, out=np.zeros_like(slower), where=slower > 0)
    left = cycle - delay - residence.sum(axis=2)
    where = use.argmax(axis=2)
    over = worst > 1
    rows, columns = np.nonzero(over)
    residence[rows, columns, where[over]] += left[over]
    return Solution(slower, residence)
