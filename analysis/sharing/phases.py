"""From speeds of kernels to the slowdown of jobs: how the phases of several jobs overlap.

A job goes round its phases (its kinds of kernels, and a gap in which only the host works). With phases of exponential
length the set of jobs is a continuous-time Markov chain over the combinations of phases; in each the jobs move at the
speeds that `analysis.sharing.corun` gives. Its stationary distribution says how long the jobs spend in each
combination, so a phase that is slowed down is met more often, without any simulation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: No job stands still for good: the slowest speed that the chain is solved with.
SLOWEST = 1e-4


def combinations(shape: tuple[int, ...]) -> npt.NDArray[np.intp]:
    """Return all combinations of the members' phases, (n, k), the last member's changing fastest."""
    return np.indices(shape).reshape(len(shape), -1).T.astype(np.intp)


def occupancy(shape: tuple[int, ...], speed: Floats, length: Floats) -> Floats:
    """Return the share of time in each combination of phases.

    Parameters
    ----------
    shape : tuple of int
        Number of phases of each member.
    speed : ndarray (b, n, k)
        Speed of each member in each combination, against alone.
    length : ndarray (b, k, p)
        Length of each phase alone, any unit; padded with anything beyond a member's last phase. A phase of length 0 is
        passed at once.

    Returns
    -------
    ndarray (b, n)
        Sums to 1.
    """
    at = combinations(shape)
    batch, states, members = speed.shape
    generator = np.zeros((batch, states, states))
    here = np.arange(states)
    for member in range(members):
        if shape[member] == 1:
            continue
        following = at.copy()
        following[:, member] = (following[:, member] + 1) % shape[member]
        there = np.ravel_multi_index(tuple(following.T), shape)
        floor = 1e-9 * length[:, member, : shape[member]].sum(axis=1)
        lasts = np.maximum(length[:, member, at[:, member]], floor[:, None])
        rate = np.maximum(speed[:, :, member], SLOWEST) / lasts
        generator[:, there, here] += rate
        generator[:, here, here] -= rate
    # The balance equations are one too few; the shares adding up to 1 takes the place of the last. Scaling each
    # equation by its own exit rate keeps short phases from swamping long ones.
    scale = np.abs(generator[:, here, here])
    generator /= np.where(scale > 0, scale, 1.0)[:, :, None]
    generator[:, -1, :] = 1.0
    right = np.zeros((batch, states, 1))
    right[:, -1] = 1.0
    share = np.maximum(np.linalg.solve(generator, right)[..., 0], 0.0)
    whole: Floats = share / share.sum(axis=1, keepdims=True)
    return whole


def progress(share: Floats, speed: Floats) -> Floats:
    """Return how fast each member gets on, 1/S, from the shares of time (b, n) and the speeds (b, n, k)."""
    progressed: Floats = np.einsum("bn,bnk->bk", share, speed)
    return progressed
