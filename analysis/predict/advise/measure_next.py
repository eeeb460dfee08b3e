"""Which co-runs of a workload should be measured next, so that its slowdown is known best."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, NotFoundError, UsageError
from analysis.interference.decision import LIMIT, usual_limit
from analysis.numbers import significant
from analysis.predict.evaluate import execution
from analysis.predict.evaluate.evaluate import LEAST_RUNS
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.selection import resolve_gpus
from analysis.predict.frame import features
from analysis.predict.frame import profiles as solo_profiles
from analysis.predict.frame.frame import TrainingFrame
from analysis.predict.frame.schema import Floats, Ints
from analysis.predict.models.activemodel import answering
from analysis.predict.models.many import answers
from analysis.predict.predictors.structured import StructuredGP
from analysis.reference.mechanism_names import MPS
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns
from analysis.store.queries.sources import require_dataset

#: Random choices that stand beside the active one.
DRAWS = 50

#: Measured runs without which there is nothing to choose by.
_LEAST = 2

#: Mean of the absolute value of a standard normal variable: standard deviation to expected absolute error.
_HALF_NORMAL = float(np.sqrt(2.0 / np.pi))


@dataclass(frozen=True)
class Candidates:
    """Values that could be measured, and which of them one run brings.

    Attributes
    ----------
    covariance : ndarray, shape (values, values)
        Posterior covariance of ln S, without noise.
    noise : float
        Variance of one measurement.
    runs : list of ndarray of int
        The values that each run measures: both members of a pair.
    """

    covariance: Floats
    noise: float
    runs: Sequence[Ints]


def expected_error(candidates: Candidates, chosen: Sequence[int] = ()) -> float:
    """Return the expected percentage error of the values, once some runs are measured.

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    chosen : sequence of int
        Numbers of the measured runs.

    Returns
    -------
    float
        Mean over all values of ``100 sqrt(2 / pi) sd``, in percent, the expectation of ``100 |error of ln S|`` for a
        normal posterior. The noise of a measurement is not part of it.
    """
    covariance = candidates.covariance
    if len(chosen):
        rows = np.concatenate([candidates.runs[number] for number in chosen])
        covariance = _after(covariance, rows, candidates.noise)
    return _error(np.diag(covariance))


def greedy(candidates: Candidates, count: int) -> list[tuple[int, float]]:
    """Choose runs one after the other, each the one that leaves the least expected error.

    The posterior covariance of a Gaussian process doesn't depend on what will be measured, so that the whole choice can
    be made before the first run (Krause, Singh and Guestrin, Journal of Machine Learning Research 9, 2008, for greedy
    placement; the criterion here is the mean deviation, not mutual information).

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    count : int
        Runs to choose; fewer when there are fewer.

    Returns
    -------
    list of (int, float)
        Number of each run, and the expected error in percent after it and all before it.
    """
    covariance = candidates.covariance
    left = list(range(len(candidates.runs)))
    out: list[tuple[int, float]] = []
    while left and len(out) < count:
        errors = [_error(_variances_after(covariance, candidates.runs[run], candidates.noise)) for run in left]
        best = int(np.argmin(errors))
        run = left.pop(best)
        covariance = _after(covariance, candidates.runs[run], candidates.noise)
        out.append((run, float(errors[best])))
    return out


def at_random(candidates: Candidates, count: int, seed: int = 0, draws: int = DRAWS) -> list[float]:
    """Return the mean expected error after 1, 2, ... runs that are chosen by lot."""
    generator = np.random.default_rng(seed)
    count = min(count, len(candidates.runs))
    total = np.zeros(count)
    for _ in range(draws):
        covariance = candidates.covariance
        for step, run in enumerate(generator.permutation(len(candidates.runs))[:count]):
            covariance = _after(covariance, candidates.runs[run], candidates.noise)
            total[step] += _error(np.diag(covariance))
    return [float(value) for value in total / draws]


def condition(candidates: Candidates, mean: Floats, rows: Ints, values: Floats) -> Floats:
    """Return the posterior mean of all values once some of them were measured.

    Parameters
    ----------
    candidates : Candidates
        What could be measured.
    mean : ndarray, shape (values,)
        Posterior mean before.
    rows : ndarray of int
        Which values were measured.
    values : ndarray, shape of `rows`
        What was measured, in ln S.
    """
    across = candidates.covariance[:, rows]
    gram = candidates.covariance[np.ix_(rows, rows)] + candidates.noise * np.eye(len(rows))
    out: Floats = mean + across @ np.linalg.solve(gram, values - mean[rows])
    return out


def _error(variances: Floats) -> float:
    return float(100.0 * _HALF_NORMAL * np.sqrt(np.maximum(variances, 0.0)).mean())


def _gain(covariance: Floats, rows: Ints, noise: float) -> tuple[Floats, Floats]:
    across = covariance[:, rows]
    solved = np.linalg.solve(covariance[np.ix_(rows, rows)] + noise * np.eye(len(rows)), across.T)
    return across, np.asarray(solved, dtype=np.float64)


def _after(covariance: Floats, rows: Ints, noise: float) -> Floats:
    across, solved = _gain(covariance, rows, noise)
    return np.asarray(covariance - across @ solved, dtype=np.float64)


def _variances_after(covariance: Floats, rows: Ints, noise: float) -> Floats:
    across, solved = _gain(covariance, rows, noise)
    return np.asarray(np.diag(covariance) - np.einsum("ra,ar->r", across, solved), dtype=np.float64)


#: Partners that are weighed at most; beyond, those the data set measured most.
MOST_PARTNERS = 250


@dataclass(frozen=True)
class Suggestion:
    """One co-run to measure.

    Attributes
    ----------
    rank : int
        1 is the first to measure.
    workload, co_workload : str
        The workload and its partner; the same name twice is two instances of it.
    expected_error : float
        Expected error of the workload's pairs after this run and those before it, percent.
    gain : float
        By how much this run lowers it, percentage points.
    random_error : float
        The same after as many runs chosen by lot, percent.
    command : str
        How to measure it.
    verdict, why, worst, within_limit
        What is said of the two today, as everywhere: the decision at the limit, its reason, the largest S, and the
        probability in percent that both stay within the limit.
    """

    rank: int
    workload: str
    co_workload: str
    expected_error: float
    gain: float
    random_error: float
    command: str
    verdict: str = "measure first"
    why: str = ""
    worst: float | None = None
    within_limit: float | None = None


@dataclass(frozen=True)
class Plan:
    """What to measure next.

    Attributes
    ----------
    dataset, workload, gpu, mechanism : str
        What it is about.
    expected_error : float
        Expected error of the workload's pairs as things stand, percent.
    measured : int
        Runs of the workload that are measured already.
    partners : int
        Workloads that it could be measured beside.
    profiled : bool
        Whether anything is known of the workload alone.
    simulated : bool
        Whether a simulator made the co-runs that this is learnt from.
    runs : int
        Measured runs behind the choice.
    suggestions : tuple of Suggestion
        The best first.
    notes : tuple of str
        What to bear in mind.
    limit : float
        That of the verdicts on the suggested pairs.
    """

    dataset: str
    workload: str
    gpu: str
    mechanism: str
    expected_error: float
    measured: int
    partners: int
    profiled: bool
    simulated: bool
    runs: int
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...]
    limit: float = LIMIT

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)

    def table(self) -> pd.DataFrame:
        """Return the suggestions, one row each."""
        return pd.DataFrame([asdict(one) for one in self.suggestions], columns=list(Suggestion.__annotations__))


def measure_next(
    database: Database,
    dataset: str,
    workload: str,
    runs: int = 5,
    gpu: str | None = None,
    mechanism: str | None = None,
    progress: Progress | None = None,
    limit: float | None = None,
) -> Plan:
    """Choose the co-runs of a workload whose measurement lowers the error of its predictions most.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        Data set with the measured co-runs of other workloads.
    workload : str
        The workload; its profile is used where there is one.
    runs : int
        Co-runs to choose.
    gpu, mechanism : str, optional
        Where and how; by default those with the most measured runs.
    progress : callable, optional
        As in `evaluate.evaluate`.
    limit : float, optional
        That of the verdicts on the chosen pairs; by default that of the settings.

    Returns
    -------
    Plan
        The choice, with what it is expected to bring beside a choice by lot.

    Raises
    ------
    NotFoundError
        If nothing is known of the workload.
    NotEnoughDataError
        With fewer than two measured runs to learn from, or when every pair of it is measured.
    UsageError
        If `runs` is below 1.
    """
    if runs < 1:
        raise UsageError(f"{runs} runs can't be chosen", "Ask for at least one with --runs.")
    require_dataset(database, dataset)
    where, how = _place(database, dataset, gpu, mechanism)
    frame = features.build(database, dataset, [where], [how])
    if frame.runs < _LEAST:
        raise NotEnoughDataError(
            f"data set {dataset} has {frame.runs} measured runs on {where} under {how}; a choice needs {_LEAST}",
            "Measure pairs of workloads that you have first, each beside at least two others.",
        )
    table = solo_profiles.collect(database, dataset)
    names = partners_of(frame, workload)
    if workload not in set(table.index.get_level_values("workload")) | set(frame.workloads):
        raise NotFoundError(
            f"there is no workload {workload!r} in data set {dataset}",
            f"Import its profile with --dataset {shlex.quote(dataset)}, or check the name's spelling.",
        )
    done = _measured_partners(database, dataset, where, how, workload)
    open_names = [name for name in names if name not in done]
    if not open_names:
        raise NotEnoughDataError(
            f"every pair of {workload} is measured on {where} under {how}",
            "Name another GPU, or another workload.",
        )
    (_, model), = execution.run(
        lambda _: StructuredGP().fit(frame.X, frame.y), ["fit"], progress, describe=lambda _: "learning from the runs"
    )  # fmt: skip
    X = features.rows_for_sets(table, [(workload, name) for name in open_names], where, how)
    weighed = candidates_of(model, X)[0]
    chosen = greedy(weighed, runs)
    lot = at_random(weighed, len(chosen))
    before = expected_error(weighed)
    suggestions, last = [], before
    most = usual_limit() if limit is None else limit
    pairs = [(workload, open_names[number]) for number, _ in chosen]
    said = answers(database, answering(database, dataset), where, pairs, how, most)
    for rank, ((number, error), by_lot, one) in enumerate(zip(chosen, lot, said, strict=True), start=1):
        partner = open_names[number]
        suggestions.append(
            Suggestion(
                rank, workload, partner, error, last - error, by_lot, command(workload, partner, how),
                one.decision.verdict, one.decision.why, one.decision.worst, one.decision.within_limit,
            )
        )  # fmt: skip
        last = error
    here = table.index.isin([(where, workload)]).any()
    known = bool(here) and bool(table.loc[[(where, workload)]].select_dtypes("number").notna().to_numpy().any())
    return Plan(
        dataset=dataset,
        workload=workload,
        gpu=where,
        mechanism=how,
        expected_error=before,
        measured=len(done & set(names)),
        partners=len(names),
        profiled=known,
        simulated=frame.simulated,
        runs=frame.runs,
        suggestions=tuple(suggestions),
        limit=most,
        notes=_notes(known, workload, where, frame),
    )


def in_words(plan: Plan) -> str:
    """Say in two sentences what to measure and what it is expected to bring."""
    first, last = plan.suggestions[0], plan.suggestions[-1]
    count = len(plan.suggestions)
    beside = "a second instance of itself" if first.co_workload == plan.workload else first.co_workload
    before, after = significant(plan.expected_error), significant(last.expected_error)
    return (
        f"Measure {plan.workload} beside {beside} first. "
        f"{'This run takes' if count == 1 else f'These {count} runs take'} the expected error of its pairs on "
        f"{plan.gpu} from {before} % to {after} %, against {significant(last.random_error)} % where chosen by lot."
    )


def partners_of(frame: TrainingFrame, workload: str) -> list[str]:
    """Return the workloads that a new one could be measured beside, itself last; the most measured where too many."""
    counts = pd.Series([name for others in frame.rows["others"] for name in others], dtype=object).value_counts()
    kept = sorted(str(name) for name in counts.index[:MOST_PARTNERS] if name != workload)
    return [*kept, workload]


def candidates_of(model: StructuredGP, X: pd.DataFrame) -> tuple[Candidates, Floats]:
    """Return what pairs could be measured, two rows each, and the posterior mean of ln S in the direct view.

    Parameters
    ----------
    model : StructuredGP
        Fitted.
    X : pd.DataFrame
        Rows of pairs as `features.rows_for_sets` builds them: both members of a pair, one after the other.
    """
    members = model.reader_.read(X)
    jobs = model.jobs_of(members)
    own, other = members.own, members.others[:, 0]
    covariance = model.direct_.covariance(jobs, own, other)
    runs = [np.array([2 * number, 2 * number + 1]) for number in range(len(X) // 2)]
    mean = model.direct_.predict(jobs, own, other)
    return Candidates(covariance, model.direct_.noise_, runs), mean


def command(workload: str, partner: str, mechanism: str) -> str:
    """Return the command that measures a pair; the programs are the user's to fill in."""
    words = {MPS: "mps", "time-slicing": "time-slicing"}
    how = words.get(mechanism)
    flag = f" --mechanism {how}" if how else ""
    names = f"--workload {shlex.quote(workload)} --workload {shlex.quote(partner)}"
    return f"stallscope capture corun{flag} {names} -- COMMAND_1 ::: COMMAND_2"


def _place(database: Database, dataset: str, gpu: str | None, mechanism: str | None) -> tuple[str, str]:
    """Return the GPU and mechanism with the most runs among those that are asked for."""
    found = coruns.gpus_and_mechanisms(database, dataset)
    gpus = resolve_gpus(gpu, sorted(set(found["gpu"].astype(str))), dataset) if gpu else None
    kept = found[found["gpu"].isin(gpus)] if gpus else found
    kept = kept[kept["mechanism"] == mechanism] if mechanism else kept
    if kept.empty:
        what = " ".join(word for word in ("on", gpu, "under", mechanism) if word) if gpu or mechanism else "at all"
        raise NotEnoughDataError(
            f"data set {dataset} has no measured co-run {what}", "Choose a GPU and mechanism it was measured with."
        )
    best = kept.sort_values("runs", ascending=False, kind="stable").iloc[0]
    return str(best["gpu"]), str(best["mechanism"])


def _measured_partners(database: Database, dataset: str, gpu: str, mechanism: str, workload: str) -> set[str]:
    chosen = Filter(datasets=(dataset,), gpus=(gpu,), mechanisms=(mechanism,), workloads=(workload,))
    members = coruns.with_partners(database, chosen)
    pairs = members[members["k"] == 2] if len(members) else members
    done: set[str] = set()
    for _, run in pairs.groupby("run_id"):
        names = [str(name) for name in run["workload"]]
        if workload in names:
            names.remove(workload)
            done.update(names)
    return done


def _notes(profiled: bool, workload: str, gpu: str, frame: TrainingFrame) -> tuple[str, ...]:
    notes = []
    if frame.runs < LEAST_RUNS:
        notes.append(
            f"{frame.runs} runs, fewer than {LEAST_RUNS}: the order is a first guess, and no score says how good it is."
        )
    if not profiled:
        notes.append(
            f"Nothing is known of {workload} alone on {gpu}: the choice rests on its name. A profile of it alone costs "
            "one run and says more than most co-runs."
        )
    if frame.simulated:
        notes.append("The co-runs that this is learnt from are simulated.")
    return tuple(notes)
