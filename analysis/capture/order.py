"""Which sets to measure first: those that say most about how sensitive each job is and how much each presses.

The model behind the order is the additive one, ln S of job i beside others = sensitivity of i + sum of the pressures of
the others, with independent normal priors. In it the information of a set depends on who is in it and not on what will
be measured, so the order is known beforehand: greedy maximisation of the gained information, which for this submodular
measure is within 1 - 1/e of the best choice (Nemhauser, Wolsey and Fisher 1978; Krause, Singh and Guestrin 2008).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

#: Prior standard deviation of sensitivities and pressures, and that of a measurement, in ln S.
_PRIOR, _NOISE = 0.3, 0.05
#: Beyond this many, choosing costs more than it tells: the rest follow in the order given.
_MOST = 600


def informative(sets: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Order sets of jobs, those first that tell most beside the ones before them.

    Parameters
    ----------
    sets : sequence of tuple of str
        Jobs that would run together; a job may stand twice.

    Returns
    -------
    list of tuple of str
        All of them, once each.
    """
    todo = list(dict.fromkeys(sets))
    names = sorted({name for one in todo for name in one})
    place = {name: number for number, name in enumerate(names)}
    size = 2 * len(names)
    covariance = [[_PRIOR**2 * (a == b) for b in range(size)] for a in range(size)]
    rows = {one: _rows(one, place, len(names)) for one in todo}
    # Gains only fall, so an old gain bounds the new one: only the top of the heap is ever computed again.
    heap = [(-math.inf, number, one) for number, one in enumerate(todo)]
    heapq.heapify(heap)
    out: list[tuple[str, ...]] = []
    while heap and len(out) < _MOST:
        _, number, one = heapq.heappop(heap)
        gain = _gain(covariance, rows[one])
        if heap and gain < -heap[0][0] - 1e-12:
            heapq.heappush(heap, (-gain, number, one))
            continue
        out.append(one)
        for row in rows[one]:
            _learn(covariance, row)
    return out + [one for _, _, one in sorted(heap, key=lambda entry: entry[1])]


def _rows(one: tuple[str, ...], place: dict[str, int], count: int) -> list[dict[int, float]]:
    rows = []
    for victim, name in enumerate(one):
        row: dict[int, float] = {place[name]: 1.0}
        for other, presser in enumerate(one):
            if other != victim:
                row[count + place[presser]] = row.get(count + place[presser], 0.0) + 1.0
        rows.append(row)
    return rows


def _times(covariance: list[list[float]], row: dict[int, float]) -> list[float]:
    return [sum(line[at] * value for at, value in row.items()) for line in covariance]


def _gain(covariance: list[list[float]], rows: list[dict[int, float]]) -> float:
    """Return ln det(I + R C R' / noise²): the information of some rows, each given those before."""
    gram = [
        [
            sum(covariance[a][b] * x * y for a, x in one.items() for b, y in other.items()) / _NOISE**2
            for other in rows
        ]
        for one in rows
    ]  # fmt: skip
    for number in range(len(gram)):
        gram[number][number] += 1.0
    total = 0.0
    for pivot in range(len(gram)):  # Gaussian elimination: the determinant is the product of the pivots
        total += math.log(gram[pivot][pivot])
        for below in range(pivot + 1, len(gram)):
            factor = gram[below][pivot] / gram[pivot][pivot]
            gram[below] = [x - factor * y for x, y in zip(gram[below], gram[pivot], strict=True)]
    return total


def _learn(covariance: list[list[float]], row: dict[int, float]) -> None:
    """Update the covariance in place by one measurement (Sherman and Morrison)."""
    seen = _times(covariance, row)
    scale = 1.0 / (_NOISE**2 + sum(seen[at] * value for at, value in row.items()))
    active = [at for at, value in enumerate(seen) if value]
    for a in active:
        factor = seen[a] * scale
        line = covariance[a]
        for b in active:
            line[b] -= factor * seen[b]
