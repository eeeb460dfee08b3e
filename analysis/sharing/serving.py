"""Latency of inference servers: requests that come at their own times and queue when the server is busy.

The queue is walked through request by request (Lindley's recursion) with the same arrivals and sizes every time. So two
mechanisms are compared on the same traffic, and a slower server is never seen to answer sooner. A server that gets
requests faster than it can answer them has no latency at all: its queue grows for as long as one looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analysis.sharing.work import Service

Floats = npt.NDArray[np.float64]

#: Requests that are looked at; with more the percentiles hardly move.
REQUESTS = 2000
_SEED = 20240229
#: Requests meet different phases of their neighbours: shape of the gamma distribution of what sharing adds to each.
_BURSTS = 2.0


@dataclass(frozen=True)
class Latency:
    """Latencies of a server in ms; arrays follow the slowdowns asked for.

    Attributes
    ----------
    p50_ms, p99_ms : ndarray
        From a request's arrival to its end. For LLM prefill this is the time to the first token.
    step_p50_ms, step_p99_ms : ndarray
        Service time of one step. For LLM decoding this is the time per output token.
    utilisation : ndarray
        Work that comes in a time, over that time; from 1 on the server can't keep up, and p50_ms and p99_ms are
        infinite.
    """

    p50_ms: Floats
    p99_ms: Floats
    step_p50_ms: Floats
    step_p99_ms: Floats
    utilisation: Floats


@lru_cache(maxsize=8)
def _traffic(spread: float) -> tuple[Floats, Floats, Floats]:
    """Return times between arrivals, sizes and shares of what sharing adds, all with mean 1."""
    random = np.random.default_rng(_SEED)
    between = random.exponential(1.0, REQUESTS)
    sigma = np.sqrt(np.log1p(spread**2))
    sizes = np.exp(sigma * random.standard_normal(REQUESTS))
    added = random.gamma(_BURSTS, 1 / _BURSTS, REQUESTS)
    return between / between.mean(), sizes / sizes.mean(), added / added.mean()


def latency(step_ms: Floats, slowdown: Floats, service: Service, wait_ms: Floats | float = 0.0) -> Latency:
    """Return the latencies of a server whose steps are slowed down.

    Parameters
    ----------
    step_ms : ndarray
        Time of a step alone.
    slowdown : ndarray
        S of its work, same shape.
    service : Service
        Load, steps of a request, spread of the sizes.
    wait_ms : ndarray or float
        Time that every request waits before it is served at all, such as a turn of others.

    Returns
    -------
    Latency
        Of `REQUESTS` requests.
    """
    alone = np.asarray(step_ms, dtype=float)
    slowed = np.broadcast_to(np.asarray(slowdown, dtype=float), alone.shape)
    between, sizes, added = _traffic(service.spread)
    request = alone * service.steps
    factor = 1 + (slowed[..., None] - 1) * added
    work = request[..., None] * sizes * factor + np.asarray(wait_ms, dtype=float)[..., None] * added
    gap = request[..., None] / service.load * between
    backlog, taken = np.zeros(alone.shape), np.empty(work.shape)
    for number in range(REQUESTS):
        taken[..., number] = backlog + work[..., number]
        backlog = np.maximum(taken[..., number] - gap[..., number], 0.0)
    p50, p99 = np.quantile(taken, [0.5, 0.99], axis=-1)
    utilisation = service.load * (slowed + np.asarray(wait_ms, dtype=float) / request)
    p50, p99 = (np.where(utilisation < 1, values, np.inf) for values in (p50, p99))
    step50, step99 = np.quantile(alone[..., None] * factor, [0.5, 0.99], axis=-1)
    return Latency(p50, p99, step50, step99, utilisation)
