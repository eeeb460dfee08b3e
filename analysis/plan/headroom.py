"""What pairing by predictions takes of the difference between random and best, on sets whose pairs are all measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from analysis.errors import NotEnoughDataError
from analysis.interference.decision import LIMIT
from analysis.interference.matrix import MEASURED, slowdown_matrix
from analysis.numbers import significant
from analysis.predict.frame import profiles
from analysis.predict.predictors.registry import PREDICTORS
from analysis.store.database import Database
from analysis.store.queries import models as stored

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Headroom:
    """How much of what pairing can gain a predictor takes, over many sets of jobs that must all be paired.

    Attributes
    ----------
    sets : int
        Sets of jobs behind it.
    antt_taken, stp_taken : float
        Share of the difference between random pairing and the best pairing, in percent; below 0 it is worse than
        random.
    antt_taken_ci, stp_taken_ci : tuple of float
        90 % interval by drawing sets again.
    best_partner : float
        STP of the predicted best partner over that of the best, mean over jobs.
    """

    sets: int
    antt_taken: float
    stp_taken: float
    antt_taken_ci: tuple[float, float]
    stp_taken_ci: tuple[float, float]
    best_partner: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def _measured(database: Database, evaluation_id: str) -> tuple[Floats, list[str], str]:
    """Return measured S of the workloads that no check flags, their names, and the GPU."""
    made = stored.evaluation(database, evaluation_id)
    first = stored.predictions(database, evaluation_id).iloc[0]
    matrix = slowdown_matrix(database, str(made["dataset"]), str(first["gpu"]), str(first["mechanism"]))
    kept = [place for place, name in enumerate(matrix.workloads) if name not in matrix.flagged]
    square = np.ix_(kept, kept)
    measured = np.where(matrix.state[square] == MEASURED, matrix.slowdown[square], np.nan)
    np.fill_diagonal(measured, np.nan)
    return measured, [matrix.workloads[place] for place in kept], matrix.gpu


def headroom_of(
    database: Database, evaluation_id: str, predictor: str, *, sets: int = 200, seed: int = 0, doubtful: bool = True
) -> Headroom:
    """Pair jobs by the out-of-fold predictions of a stored evaluation.

    Parameters
    ----------
    database : Database
        The open database.
    evaluation_id, predictor : str
        A stored evaluation of pairs, and one of its predictors.
    sets, seed
        As `headroom`.
    doubtful : bool
        Whether pairs count in which both jobs ran faster beside each other than alone.

    Returns
    -------
    Headroom
        Of the workloads that no check flags, the mean over the evaluation's divisions into folds. Both figures minimise
        the predicted sum of S: maximising the predicted sum of 1/S chases errors of the gentlest pairs and takes less
        of the STP.
    """
    table = stored.predictions(database, evaluation_id, predictor)
    measured, names, _ = _measured(database, evaluation_id)
    if not doubtful:
        measured = np.where((measured < 1) & (measured.T < 1), np.nan, measured)
    at = {name: number for number, name in enumerate(names)}
    found = []
    for _, part in table.groupby("seed"):
        total, count = np.zeros_like(measured), np.zeros_like(measured)
        for job, others, value in zip(part["workload"], part["co_workloads"], part["predicted"], strict=True):
            names = [str(name) for name in others]
            if len(names) == 1 and names[0] != job and job in at and names[0] in at:
                total[at[job], at[names[0]]] += math.log(value)
                count[at[job], at[names[0]]] += 1
        with np.errstate(invalid="ignore"):
            decided = np.exp(total / count)
        known = np.where(np.isfinite(decided), measured, np.nan)
        found.append(headroom(known, decided, decided, -1 / decided, sets=sets, seed=seed))

    def mean(name: str) -> Any:
        values = np.mean([getattr(one, name) for one in found], axis=0)
        return tuple(values.tolist()) if values.ndim else float(values)

    fields = ("antt_taken", "stp_taken", "antt_taken_ci", "stp_taken_ci", "best_partner")
    return Headroom(found[0].sets, **{name: mean(name) for name in fields})


@dataclass(frozen=True)
class Worth:
    """What predictions of one kind are worth for placing jobs.

    Attributes
    ----------
    by, title, protocol : str
        Predictor or rule, its title, and how the pairs were kept from it; empty for a rule, which learns nothing.
    headroom : Headroom
        Over sets of eight jobs.
    without_doubtful : Headroom or None
        The same without pairs in which both jobs ran faster beside each other than alone; None where there are none.
    precision, recall : float
        Of "every job of the pair stays within the limit", in percent; NaN for a rule.
    """

    by: str
    title: str
    protocol: str
    headroom: Headroom
    without_doubtful: Headroom | None
    precision: float
    recall: float

    def row(self) -> dict[str, Any]:
        """Return the fields of a table's row."""
        other = self.without_doubtful
        return {
            "title": self.title, "protocol": self.protocol, "sets": self.headroom.sets,
            "antt_taken": self.headroom.antt_taken, "antt_taken_low": self.headroom.antt_taken_ci[0],
            "antt_taken_high": self.headroom.antt_taken_ci[1], "stp_taken": self.headroom.stp_taken,
            "stp_taken_low": self.headroom.stp_taken_ci[0], "stp_taken_high": self.headroom.stp_taken_ci[1],
            "best_partner": 100 * self.headroom.best_partner, "precision": self.precision, "recall": self.recall,
            "antt_without": other.antt_taken if other else None, "stp_without": other.stp_taken if other else None,
        }  # fmt: skip


#: Rules that pair jobs by one figure of each: the pairs with the smallest product sit together.
RULES = {
    "sm_util": "rule: least product of SM utilisation",
    "dram_throughput": "rule: least product of DRAM throughput",
}


def worth(database: Database, dataset: str, *, limit: float = LIMIT, sets: int = 200) -> list[Worth]:
    """Hold what pairing by the newest stored evaluations takes against simple rules.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        A data set whose pairs were evaluated out of fold.
    limit : float
        Of precision and recall.
    sets : int
        As `headroom`.

    Raises
    ------
    NotEnoughDataError
        If no evaluation of pairs is stored, or too few sets have all their pairs measured.
    """
    made = stored.evaluations(database, dataset)
    made = made[made["protocol"].isin(["unseen-pair", "leave-one-workload-out"])]
    found: list[Worth] = []
    for protocol, part in made.groupby("protocol", sort=False):
        newest = part.sort_values("created_at").iloc[-1]
        table = stored.predictions(database, str(newest["evaluation_id"]))
        for name in sorted(set(table["predictor"].astype(str)) - {"no-interference", "train-median"}):
            found.append(_worth(database, str(newest["evaluation_id"]), name, str(protocol), limit, sets))
    if not found:
        raise NotEnoughDataError(
            f"no predictor was evaluated on pairs of {dataset}",
            f"Run `stallscope evaluate --dataset {dataset} --protocol unseen-pair`.",
        )
    measured, names, gpu = _measured(database, str(made.iloc[0]["evaluation_id"]))
    for name, title in RULES.items():
        decided = _by_rule(database, dataset, gpu, names, name)
        if decided is not None:
            known = np.where(np.isfinite(decided), measured, np.nan)
            if len(measured_sets_of(np.isfinite(known), 8)):
                own = headroom(known, decided, decided, sets=sets)
                found.append(Worth(name, title, "", own, None, math.nan, math.nan))
    return found


def _worth(database: Database, evaluation_id: str, predictor: str, protocol: str, limit: float, sets: int) -> Worth:
    measured, _, _ = _measured(database, evaluation_id)
    doubtful = (measured < 1) & (measured.T < 1)
    table = stored.predictions(database, evaluation_id, predictor)
    paired = table[table["co_workloads"].map(len) == 1]
    run = paired.groupby(["seed", "run_id"])[["measured", "predicted"]].max()
    said = precision_and_recall(
        run["measured"].to_numpy(float), np.where(run["predicted"] <= limit, 100.0, 0.0), limit, 50.0
    )
    plain = headroom_of(database, evaluation_id, predictor, sets=sets)
    without = headroom_of(database, evaluation_id, predictor, sets=sets, doubtful=False) if doubtful.any() else None
    title = PREDICTORS[predictor].title if predictor in PREDICTORS else predictor
    return Worth(predictor, title, protocol, plain, without, said["precision"], said["recall"])


def _by_rule(database: Database, dataset: str, gpu: str, names: Sequence[str], quantity: str) -> Floats | None:
    table = profiles.collect(database, dataset, (gpu,))
    if table.empty or quantity not in table:
        return None
    own = table[quantity].droplevel("gpu").reindex(list(names)).to_numpy(dtype=np.float64)
    return np.asarray(np.outer(own, own), dtype=np.float64) if np.isfinite(own).sum() > 8 else None


def in_words(found: Sequence[Worth]) -> str:
    """Say what pairing by predictions takes, and what bounds it."""
    parts = []
    rules = [one for one in found if not one.protocol]
    for one in found:
        if not one.protocol:
            continue
        text = (
            f"Pairing by {one.title} ({one.protocol}) takes {significant(one.headroom.antt_taken)} % of the ANTT and "
            f"{significant(one.headroom.stp_taken)} % of the STP between random and best pairs"
        )
        if one.without_doubtful is not None:
            text += (
                f"; without pairs in which both ran faster than alone {significant(one.without_doubtful.antt_taken)} % "
                f"and {significant(one.without_doubtful.stp_taken)} %"
            )
        behind = [
            f"{rule.title} by {significant(gap)} points of the {what}"
            for rule in rules
            for what, gap in (
                ("ANTT", rule.headroom.antt_taken - one.headroom.antt_taken),
                ("STP", rule.headroom.stp_taken - one.headroom.stp_taken),
            )
            if gap > 0
        ]
        if behind:
            text += f"; behind the {' and the '.join(behind)}"
        parts.append(f"{text}.")
    return " ".join(parts)


def matchings(count: int) -> list[list[tuple[int, int]]]:
    """Return all ways to pair an even number of things; 105 for eight."""
    if count == 0:
        return [[]]

    def pairings(left: tuple[int, ...]) -> list[list[tuple[int, int]]]:
        if not left:
            return [[]]
        first = left[0]
        return [
            [(first, other), *more]
            for other in left[1:]
            for more in pairings(tuple(one for one in left[1:] if one != other))
        ]

    return pairings(tuple(range(count)))


def measured_sets_of(known: npt.NDArray[np.bool_], size: int) -> list[tuple[int, ...]]:
    """Return all sets of workloads whose pairs are all measured, as positions."""
    both = known & known.T
    found: list[tuple[int, ...]] = [(at,) for at in range(len(both))]
    for _ in range(size - 1):
        found = [(*one, at) for one in found for at in range(one[-1] + 1, len(both)) if both[list(one), at].all()]
    return found


def headroom(
    measured: Floats,
    decided_antt: Floats,
    decided_stp: Floats,
    decided_partner: Floats | None = None,
    *,
    size: int = 8,
    sets: int = 200,
    seed: int = 0,
) -> Headroom:
    """Pair the jobs of many sets by predictions, and hold what that gives against random and the best.

    Parameters
    ----------
    measured : ndarray, shape (workloads, workloads)
        Measured S (row: who is slowed); NaN where not measured.
    decided_antt, decided_stp : ndarray
        What each pair is judged by, smaller is better: of ordered pairs for ANTT (the sum of both is minimised), and of
        pairs for STP. Never made from the values that they are held against.
    decided_partner : ndarray, optional
        What a single partner is chosen by; as for STP by default.
    size : int
        Jobs of a set, all paired.
    sets : int
        Sets to draw among those whose pairs are all measured; all if there are fewer.
    seed : int
        Of the draw.
    """
    known = np.isfinite(measured)
    everything = measured_sets_of(known, size)
    if not everything:
        raise NotEnoughDataError(
            f"no set of {size} jobs has all its pairs measured", "Measure more pairs, or ask about another data set."
        )
    draw = np.random.default_rng(seed)
    picked = [everything[at] for at in sorted(draw.permutation(len(everything))[:sets])]
    ways = np.array(matchings(size))
    slow, work = measured + measured.T, 1 / measured + 1 / measured.T
    by_antt, by_stp = decided_antt + decided_antt.T, decided_stp + decided_stp.T
    rows = []
    for one in picked:
        at = np.array(one)
        first, second = at[ways[..., 0]], at[ways[..., 1]]
        antt, stp = slow[first, second].sum(axis=1) / size, work[first, second].sum(axis=1)
        chosen_antt = int(np.argmin(by_antt[first, second].sum(axis=1)))
        chosen_stp = int(np.argmin(by_stp[first, second].sum(axis=1)))
        rows.append((antt.mean(), antt.min(), antt[chosen_antt], stp.mean(), stp.max(), stp[chosen_stp]))
    table = np.array(rows)

    def taken(part: Floats) -> tuple[float, float]:
        sums = part.sum(axis=0)
        return (
            float(100 * (sums[0] - sums[2]) / (sums[0] - sums[1])),
            float(100 * (sums[5] - sums[3]) / (sums[4] - sums[3])),
        )

    again = np.array([taken(table[draw.integers(len(table), size=len(table))]) for _ in range(500)])
    low, high = np.percentile(again, 5, axis=0), np.percentile(again, 95, axis=0)
    antt_taken, stp_taken = taken(table)
    return Headroom(
        len(picked), antt_taken, stp_taken, (float(low[0]), float(high[0])), (float(low[1]), float(high[1])),
        _partner_ratio(work, by_stp if decided_partner is None else decided_partner + decided_partner.T, known),
    )  # fmt: skip


def _partner_ratio(work: Floats, decided: Floats, known: npt.NDArray[np.bool_]) -> float:
    """Return the STP with the partner that was chosen over that with the best one, mean over jobs."""
    ratios = []
    for row in range(len(work)):
        both = known[row] & known[:, row] & np.isfinite(decided[row])
        others = [at for at in np.flatnonzero(both) if at != row]
        if len(others) > 1:
            chosen = min(others, key=lambda at, row=row: float(decided[row, at]))  # type: ignore[misc]
            ratios.append(work[row, chosen] / max(work[row, at] for at in others))
    return float(np.mean(ratios)) if ratios else math.nan


def precision_and_recall(measured: Floats, probability: Floats, limit: float, share_from: float) -> dict[str, float]:
    """Return how often `share` was right, and how many of the pairs that could share got it, in percent.

    Parameters
    ----------
    measured : ndarray
        Measured S of the worse job of each pair.
    probability : ndarray
        Probability in percent that the pair stays within the limit.
    limit, share_from : float
        The limit, and the probability from which on the answer is share.
    """
    good, said = measured <= limit, probability >= share_from
    both = float((good & said).sum())
    return {
        "pairs": float(len(measured)),
        "share": float(said.sum()),
        "precision": 100 * both / float(said.sum()) if said.any() else math.nan,
        "recall": 100 * both / float(good.sum()) if good.any() else math.nan,
    }
