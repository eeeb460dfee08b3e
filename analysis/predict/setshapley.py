"""Shapley values of the structured predictor: sampled over the quantities of the job and of its co-runners.

The players are the quantities of the job's own profile, those of its co-runners' profiles, who the job is, who they
are, and where they run. A player that is absent takes the value it has in a row of the background. Every background row
is walked through in one order and its reverse, so that contributions add up exactly and the split's error is known.
What the predictor takes off for being unsure is a contribution of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.predict.pairgp import Jobs
from analysis.predict.pairprofiles import Members
from analysis.predict.profilescale import others_column, owner_of
from analysis.predict.quantities import BY_NAME
from analysis.predict.schema import Floats, Ints
from analysis.predict.structured import StructuredGP

#: Background rows, each walked through twice.
BACKGROUND_ROWS = 24

#: Predictions asked for at once.
CHUNK = 20_000

#: Contribution of what is taken off for being unsure.
UNSURE = "caution"


@dataclass(frozen=True)
class SetContributions:
    """Sampled contributions.

    Attributes
    ----------
    base : ndarray, shape (rows,)
        Mean over the background, ln S: a typical set of as many jobs.
    values : pd.DataFrame, shape (rows, players)
        Contributions to ln S; columns are columns of the frame or parts of the history.
    error : float
        Largest standard error of a contribution.
    background : int
        Rows of the background.
    """

    base: Floats
    values: pd.DataFrame
    error: float
    background: int


def explain_sets(estimator: StructuredGP, X: pd.DataFrame, background: pd.DataFrame) -> SetContributions:
    """Explain rows against a background.

    Parameters
    ----------
    estimator : StructuredGP
        Fitted.
    X, background : pd.DataFrame
        Rows to explain, and training rows to compare with.

    Returns
    -------
    SetContributions
        Base plus contributions is the prediction, to rounding.
    """
    sample = _spread(estimator, background)
    both = pd.concat([X, sample], ignore_index=True)
    members = estimator.reader_.read(both)
    jobs = estimator.jobs_of(members)
    plan = _Plan(estimator, members)
    orders = [np.random.default_rng(number).permutation(plan.players) for number in range(len(sample))]
    out, base, spread = np.zeros((len(X), plan.players)), np.zeros(len(X)), 0.0
    for row in range(len(X)):
        walks = np.zeros((2 * len(sample), plan.players))
        masks, rows = _masks(orders, plan.players)
        values = plan.ask(jobs, members, row, len(X), masks, rows)
        steps = values.reshape(2 * len(sample), plan.players + 1)
        for walk in range(2 * len(sample)):
            order = orders[walk // 2] if walk % 2 == 0 else orders[walk // 2][::-1]
            walks[walk, order] = np.diff(steps[walk])
        paired = 0.5 * (walks[0::2] + walks[1::2])
        out[row], base[row] = paired.mean(axis=0), steps[:, 0].mean()
        if len(sample) > 1:
            spread = max(spread, float((paired.std(axis=0, ddof=1) / np.sqrt(len(sample))).max()))
    unsure = estimator.predict(X) - base - out.sum(axis=1)
    found = pd.DataFrame(np.column_stack([out, unsure]), columns=[*plan.names, UNSURE])
    return SetContributions(base, found, spread, len(sample))


def _spread(estimator: StructuredGP, background: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of the background at even steps of their predicted slowdown, so that few rows stand for all."""
    pairs = background[background["others"].map(len).to_numpy() == 1]
    pairs = pairs if len(pairs) else background
    if len(pairs) <= BACKGROUND_ROWS:
        return pairs
    order = np.argsort(estimator.predict(pairs), kind="stable")
    steps = np.linspace(0, len(order) - 1, 2 * BACKGROUND_ROWS + 1).astype(np.int64)[1::2]
    return pairs.iloc[order[steps]]


def _masks(orders: list[Ints], players: int) -> tuple[np.ndarray, Ints]:
    """Return which players are present at every step of every walk, and the background row of each step."""
    walks = [order if side == 0 else order[::-1] for order in orders for side in (0, 1)]
    masks = np.zeros((len(walks), players + 1, players), dtype=bool)
    for number, order in enumerate(walks):
        for step, player in enumerate(order, start=1):
            masks[number, step:, player] = True
    rows = np.repeat(np.arange(len(orders)), 2 * (players + 1))
    return masks.reshape(-1, players), rows


class _Plan:
    """The players of an estimator, and how a mixture of a row and a background row is asked about."""

    def __init__(self, estimator: StructuredGP, members: Members) -> None:
        self._estimator = estimator
        self._of_quantity: list[Ints] = []
        own, others = [], []
        groups: dict[str, list[int]] = {}
        for position, name in enumerate(estimator.scale_.kept_names):
            groups.setdefault(owner_of(name), []).append(position)
        for name, positions in groups.items():
            own.append(f"own_{name}" if name in BY_NAME else name)
            others.append(others_column(name) if name in BY_NAME else name)
            self._of_quantity.append(np.array(positions, dtype=np.int64))
        self.count = len(self._of_quantity)
        # A place (GPU, mechanism, cap) is the same for all: its column stands once for both sides.
        self.names = [*own, *others, "workload", "others"]
        self.players = len(self.names)

    def ask(self, jobs: Jobs, members: Members, row: int, first: int, masks: np.ndarray, rows: Ints) -> Floats:
        """Return ln S for mixtures: present players from `row`, absent ones from background rows ``first + rows``."""
        beside = members.others[row][members.others[row] >= 0]
        out = np.empty(len(masks))
        per_chunk = max(CHUNK // (1 + len(beside)), 1)
        for start in range(0, len(masks), per_chunk):
            part = slice(start, start + per_chunk)
            mask, back = masks[part], first + rows[part]
            own = self._mix(jobs, members.own[row], members.own[back], mask[:, : self.count], mask[:, -2])
            sides = [
                self._mix(jobs, other, members.others[back, 0], mask[:, self.count : -2], mask[:, -1])
                for other in beside
            ]
            mixed = Jobs(
                np.concatenate([own.x, *(side.x for side in sides)]),
                np.concatenate([own.model, *(side.model for side in sides)]),
                np.concatenate([own.name, *(side.name for side in sides)]),
            )
            count = len(mask)
            numbers = np.arange(count)[:, None] + count * np.arange(1, 1 + len(beside))[None]
            out[part] = self._estimator.compose(mixed, np.arange(count), numbers, variance=False)[0]
        return out

    def _mix(self, jobs: Jobs, mine: int, theirs: Ints, present: np.ndarray, known: np.ndarray) -> Jobs:
        x = jobs.x[theirs].copy()
        for number, positions in enumerate(self._of_quantity):
            x[np.ix_(present[:, number], positions)] = jobs.x[mine, positions]
        model = np.where(known, jobs.model[mine], jobs.model[theirs])
        name = np.where(known, jobs.name[mine], jobs.name[theirs])
        return Jobs(x, model, name)
