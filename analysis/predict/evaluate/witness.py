"""What the witness says about stalls: every table of its chapter, made from the committed data by the usual commands.

The witness is a cycle-level simulator of others (see ``data/witness/provenance.md``). Stalls alone, counters alone and
both are compared under every protocol with paired tests; all predictors stand beside each other with intervals; the
white box answers without training, and what it names is held against what the simulator's warps waited for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import stats

from analysis.errors import NotEnoughDataError, UsageError
from analysis.ingest import catalogue
from analysis.predict.evaluate import metrics
from analysis.predict.evaluate.evaluate import evaluate
from analysis.predict.evaluate.execution import Progress
from analysis.predict.evaluate.paired import compared
from analysis.predict.frame.whitebox_sets import launches_of
from analysis.predict.predictors.registry import DEFAULT, PREDICTORS
from analysis.reference.mechanism_names import STREAMS
from analysis.settings import asset
from analysis.sharing.causes import RESOURCES, TURNS, causes
from analysis.sharing.mechanisms import CudaMps
from analysis.sharing.recover import Recovered
from analysis.sharing.whitebox import missing, recover_jobs, solve_sets
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns

#: Name of the data set in the catalogue.
DATASET = "witness"

#: Protocols that one GPU and twelve families of kernels allow; random rows would be leaky.
PROTOCOLS: Final = ("unseen-pair", "leave-one-workload-out", "leave-one-family-out", "few-shot", "pairs-to-k")

#: Those under which predictors of all kinds stand, with intervals; the others hold the question of evidence alone.
FULL: Final = ("unseen-pair", "leave-one-workload-out", "pairs-to-k")

#: Their fits take most of the time: they stand in the table of the triples alone.
SLOW: Final = ("boosting-white-box", DEFAULT)

#: What predictors may see, beside how the jobs are configured.
EVIDENCE: Final[dict[str, tuple[str, ...]]] = {
    "stalls": ("stalls",),
    "counters": ("counters", "duty cycle"),
    "both": ("stalls", "counters", "duty cycle"),
}

#: Learners that are given one evidence after the other, boosted and plain trees, a linear one, and the default; by
#: the predictor that they are with each.
LEARNERS: Final[dict[str, dict[str, str]]] = {
    "boosting": {"stalls": "boosting-stalls", "counters": "boosting", "both": "boosting-both"},
    **{name: dict.fromkeys(("stalls", "counters", "both"), name) for name in ("extra-trees", "ridge", "stallscope")},
}

#: The least measured slowdown of a member of which it is asked what was short.
_SLOWED = 1.2
#: Below this the white box names nothing.
_NAMED = 1.02

#: Stall reasons that wait for a resource, by the resource; the others wait for a latency, a barrier or nothing.
_WAITS: Final[dict[str, tuple[str, ...]]] = {
    "arithmetic pipes": ("math_pipe_throttle", "dispatch_stall"),
    "shared memory and load/store units": ("short_scoreboard", "mio_throttle", "lg_throttle"),
    "L2 and DRAM bandwidth": ("long_scoreboard",),
}


@dataclass(frozen=True)
class Study:
    """The tables of the chapter, rows of plain values.

    Attributes
    ----------
    evidence : list of dict
        One row a protocol and learner: protocol, title, folds, mape of stalls, counters and both (percent), gain (mape
        of counters less that of both, percentage points, mean over folds) and its p_holm, stalls_worse (stalls less
        counters) and its p value. Holm corrects for all tests of a protocol.
    predictors : list of dict
        One row a protocol and predictor, as `evaluate` has them, the best of each protocol first.
    white_box : list of dict
        One row a size of sets: k, n, mape, median_ape, spearman, bias of the untrained white box, and the mape of no
        interference and of the median of the same rows beside it.
    named : list of dict
        Members with S of 1.2 and more by what the pair's warps waited for alone (short) and what the white box names.
    sensitivity : list of dict
        What the white box says when its input is changed: moved (mean absolute change of ln S), mape, spearman.
    by_wait : list of dict
        Unseen pairs by what the slowed job waits for: n, its median S, and the mape of boosting on each evidence.
    single : list of dict
        Rank correlation of one quantity of the solo profiles with S over all members of pairs.
    """

    evidence: list[dict[str, Any]]
    predictors: list[dict[str, Any]]
    white_box: list[dict[str, Any]]
    named: list[dict[str, Any]]
    sensitivity: list[dict[str, Any]]
    by_wait: list[dict[str, Any]]
    single: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the tables by name."""
        return asdict(self)


def run(
    asked: Sequence[str] = PROTOCOLS,
    learners: Sequence[str] | None = None,
    predictors: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Study:
    """Compute the tables from the committed data, in a database of their own.

    Parameters
    ----------
    asked : sequence of str
        Protocols, of `PROTOCOLS`.
    learners : sequence of str, optional
        Who is given one evidence after the other, of `LEARNERS`; all by default, those of `SLOW` under
        pairs-to-k alone.
    predictors : sequence of str, optional
        Who stands in the table of predictors; all by default.
    progress : callable, optional
        As in `evaluate.evaluate`.

    Raises
    ------
    UsageError
        If a protocol does not apply to the witness.
    """
    if unknown := [name for name in asked if name not in PROTOCOLS]:
        raise UsageError(
            f"the witness can't be asked under {unknown[0]!r}: it has one GPU and 12 families",
            f"Choose of {', '.join(PROTOCOLS)}.",
        )
    with TemporaryDirectory() as folder, Database(Path(folder) / "witness.duckdb") as database:
        catalogue.load_dataset(database, DATASET)
        return study(database, asked, learners, predictors, progress)


def study(
    database: Database,
    asked: Sequence[str] = PROTOCOLS,
    learners: Sequence[str] | None = None,
    predictors: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Study:
    """Compute the tables in a database that holds the witness; see `run`."""
    steps = _Steps(3 * len(asked), progress)
    evidence, table, unseen = [], [], pd.DataFrame()
    for protocol in asked:
        learning = _learning(protocol, learners)
        needed = [LEARNERS[one][kind] for one in learning for kind in EVIDENCE]
        who = list(dict.fromkeys([*_asked(protocol, predictors), *needed]))
        calibrate = protocol in FULL
        whole = _evaluated(database, protocol, who, None, steps.next(f"{protocol}, both"), calibrate=calibrate)
        table += sorted(
            ({**row, "protocol": protocol} for row in whole["rows"]),
            key=lambda row: np.inf if row["mape"] is None else row["mape"],
        )
        masked = [one for one in learning if len(set(LEARNERS[one].values())) == 1]
        hidden = {
            kind: _evaluated(database, protocol, masked, EVIDENCE[kind], steps.next(f"{protocol}, {kind}"))
            for kind in ("stalls", "counters")
            if masked
        }
        seen = {
            kind: _of_learners(
                learning, kind, {one: hidden[kind] if kind in hidden and one in masked else whole for one in learning}
            )
            for kind in EVIDENCE
        }
        evidence += _evidence_rows(protocol, learning, seen)
        if protocol == "unseen-pair":
            unseen = pd.concat([found["predictions"].assign(evidence=kind) for kind, found in seen.items()])
    profiles, members = launches_of(database, DATASET), _members(database)
    return Study(
        evidence=evidence,
        predictors=table,
        white_box=_white_box(profiles, members),
        named=_named(profiles, members),
        sensitivity=_sensitivity(profiles, members),
        by_wait=_by_wait(unseen, profiles),
        single=_single(profiles, members),
    )


@lru_cache(maxsize=1)
def kept() -> Study:
    """Return the tables as they were computed from the committed files, kept beside them."""
    return Study(**json.loads(asset("data", "witness", "results.json").read_text(encoding="utf-8")))


class _Steps:
    """Progress of evaluations one after the other."""

    def __init__(self, count: int, progress: Progress | None) -> None:
        self.count, self.progress, self.done = count, progress, -1

    def next(self, about: str) -> Progress | None:
        self.done += 1
        if self.progress is None:
            return None
        said, before, share = self.progress, self.done / self.count, 1 / self.count
        return lambda fraction, message: said(before + share * fraction, f"{about}: {message}")


def _evaluated(
    database: Database,
    protocol: str,
    predictors: Sequence[str] | None,
    kinds: Sequence[str] | None,
    progress: Progress | None,
    *,
    calibrate: bool = False,
) -> dict[str, Any]:
    # Twelve triples are fewer than a score takes elsewhere: the chapter says so beside the figures.
    found = evaluate(
        database,
        DATASET,
        protocol,
        predictors,
        progress=progress,
        evidence=kinds,
        save=False,
        least_runs=1,
        calibrate=calibrate,
    )
    names = ("predictor", "title", "status", "n", "mape", "mape_ci", "median_ape", "spearman", "bias", "within_10",
             "skill", "coverage", "width")  # fmt: skip
    return {
        "rows": [{name: row[name] for name in names} for row in found.rows],
        "predictions": found.predictions,
    }


def _learning(protocol: str, learners: Sequence[str] | None) -> list[str]:
    """Return who is given one evidence after the other under a protocol."""
    return [one for one in learners or LEARNERS if learners or protocol == "pairs-to-k" or one not in SLOW]


def _asked(protocol: str, predictors: Sequence[str] | None) -> list[str]:
    """Return who stands in the table of predictors beside the learners."""
    if predictors is not None:
        return list(predictors)
    if protocol == "pairs-to-k":
        return list(PREDICTORS)
    if protocol in FULL:
        return [name for name in PREDICTORS if name not in SLOW]
    return ["effects", "sm-sum", "roofline-sum", "white-box"]


def _of_learners(learners: Sequence[str], kind: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return rows and predictions of the learners on one evidence, under their own names whoever they are with it."""
    rows, parts = [], []
    for one in learners:
        name = LEARNERS[one][kind]
        rows += [{**row, "predictor": one} for row in found[one]["rows"] if row["predictor"] == name]
        predictions = found[one]["predictions"]
        parts.append(predictions[predictions["predictor"] == name].assign(predictor=one))
    return {"rows": rows, "predictions": pd.concat(parts, ignore_index=True)}


def _evidence_rows(protocol: str, learners: Sequence[str], seen: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    together = pd.concat(
        [found["predictions"].assign(predictor=found["predictions"]["predictor"] + f"|{name}")
         for name, found in seen.items()], ignore_index=True,
    )  # fmt: skip
    pairs = [
        (f"{one}|{first}", f"{one}|{second}") for one in learners
        for first, second in (("counters", "both"), ("stalls", "counters"))
    ]  # fmt: skip
    tests = compared(together, pairs).to_dict("records")
    rows = []
    for one, gain, worse in zip(learners, tests[::2], tests[1::2], strict=True):
        mape = {
            name: next(row["mape"] for row in found["rows"] if row["predictor"] == one) for name, found in seen.items()
        }
        rows.append(
            {
                "protocol": protocol,
                "predictor": one,
                "title": PREDICTORS[one].title.partition(",")[0],
                "folds": int(gain["folds"]),
                **mape,
                "gain": _plain(gain["difference"]),
                "gain_p": _plain(gain["p_holm"]),
                "stalls_worse": _plain(worse["difference"]),
                "stalls_worse_p": _plain(worse["p_holm"]),
            }
        )
    return rows


def _members(database: Database) -> pd.DataFrame:
    """Return the members of all co-runs: run_id, slot, workload, k, slowdown."""
    found = coruns.members(database, Filter(datasets=(DATASET,), mechanisms=(STREAMS,)))
    return found.sort_values(["k", "run_id", "slot"], kind="stable").reset_index(drop=True)


def _recovered(profiles: pd.DataFrame) -> Recovered:
    found = recover_jobs(profiles, str(profiles["gpu"].iloc[0]))
    if found is None:
        lacking = ", ".join(missing(profiles))
        raise NotEnoughDataError(f"the white box needs: {lacking}", "Load the witness as it ships.")
    return found


def _said(profiles: pd.DataFrame, members: pd.DataFrame) -> np.ndarray:
    """Return the white box's slowdown of every member."""
    recovered = _recovered(profiles)
    sets = [tuple(part) for _, part in members.groupby(["k", "run_id"], sort=False)["workload"]]
    return np.concatenate(solve_sets(recovered, sets, CudaMps()))


def _figures(measured: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    errors = metrics.absolute_percentage_errors(measured, predicted)
    return {
        "mape": float(errors.mean()),
        "median_ape": float(np.median(errors)),
        "spearman": float(stats.spearmanr(measured, predicted)[0]),
        "bias": float(100 * np.mean(predicted / measured - 1)),
    }


def _white_box(profiles: pd.DataFrame, members: pd.DataFrame) -> list[dict[str, Any]]:
    said = _said(profiles, members)
    rows = []
    for k in sorted(set(members["k"])):
        here = (members["k"] == k).to_numpy()
        measured = members["slowdown"].to_numpy(dtype=np.float64)[here]
        middle = np.full(len(measured), np.median(measured))
        rows.append(
            {"k": int(k), "n": int(here.sum()), **_figures(measured, said[here]),
             "no_interference": _figures(measured, np.ones_like(measured) + 1e-12 * np.arange(len(measured)))["mape"],
             "train_median": float(metrics.absolute_percentage_errors(measured, middle).mean())}
        )  # fmt: skip
    return rows


def _pairs(members: pd.DataFrame) -> pd.DataFrame:
    """Return members of pairs with the other's name."""
    two = members[members["k"] == 2]
    other = two.groupby("run_id")["workload"].transform(lambda names: names.iloc[::-1].to_numpy())
    return two.assign(other=other)


def _shares(profiles: pd.DataFrame) -> pd.DataFrame:
    """Return the share of warp cycles that each job waits for each resource alone, percent; index workload."""
    reasons = profiles.set_index("workload")[sorted(set(_ALL_REASONS) & set(profiles.columns))].fillna(0.0)
    shares = 100 * reasons.div(reasons.sum(axis=1), axis=0)
    return pd.DataFrame(
        {resource: shares.reindex(columns=names, fill_value=0.0).sum(axis=1) for resource, names in _WAITS.items()}
    )


_ALL_REASONS: Final = (
    "selected", "long_scoreboard", "short_scoreboard", "wait", "math_pipe_throttle", "lg_throttle", "mio_throttle",
    "barrier", "drain", "branch_resolving", "imc_miss", "no_instruction", "dispatch_stall",
)  # fmt: skip


def _named(profiles: pd.DataFrame, members: pd.DataFrame) -> list[dict[str, Any]]:
    """Count what the white box names against what the warps of both jobs waited for alone."""
    recovered = _recovered(profiles)
    shares, pairs = _shares(profiles), _pairs(members)
    rows = []
    for _, run in pairs.groupby("run_id", sort=False):
        found = causes(recovered, tuple(run["workload"]), CudaMps())
        members_of = zip(run["workload"], run["other"], run["slowdown"].astype(float), found, strict=True)
        for workload, other, slowdown, parts in members_of:
            if slowdown < _SLOWED:
                continue
            both = shares.loc[workload] + shares.loc[other]
            worth = {name: sum(one.part for one in parts if one.resource == name) for name in (*RESOURCES, TURNS)}
            said = sum(worth.values())
            named = max(worth, key=lambda name: worth[name]) if np.exp(said) >= _NAMED else "nothing"
            rows.append((str(both.idxmax()), named, worth[TURNS], said))
    table = pd.DataFrame(rows, columns=["short", "named", "turns", "said"])
    made = []
    for short in _WAITS:
        here = table[table["short"] == short]
        counts = here["named"].value_counts()
        # Room in L2 belongs to the way to memory as well.
        right = {short, "room in L2"} if short == "L2 and DRAM bandwidth" else {short}
        said = here["said"].sum()
        made.append(
            {
                "short": short,
                "members": len(here),
                "named": ", ".join(f"{name} {count}" for name, count in counts.items()),
                "agrees": 100 * float(here["named"].isin(right).mean()) if len(here) else None,
                "turns_share": 100 * float(here["turns"].sum() / said) if said > 0 else None,
            }
        )
    return made


def _sensitivity(profiles: pd.DataFrame, members: pd.DataFrame) -> list[dict[str, Any]]:
    """Ask the white box with other stalls, and with other counters."""
    two = members[members["k"] == 2]
    measured = two["slowdown"].to_numpy(dtype=np.float64)
    reasons = [name for name in _ALL_REASONS if name in profiles and name != "selected"]
    waits = profiles[reasons].fillna(0.0).sum(axis=1)

    def stalls_are(reason: str) -> pd.DataFrame:
        return profiles.assign(**{name: waits if name == reason else 0.0 for name in reasons})

    changed: dict[str, Callable[[], pd.DataFrame]] = {
        "as they are": lambda: profiles,
        "every wait a long scoreboard": lambda: stalls_are("long_scoreboard"),
        "every wait a math pipe throttle": lambda: stalls_are("math_pipe_throttle"),
        "every wait a fixed latency": lambda: stalls_are("wait"),
        "no DRAM traffic": lambda: profiles.assign(dram=0.0),
        "issue activity of the median job": lambda: profiles.assign(issue_active=profiles["issue_active"].median()),
    }
    rows: list[dict[str, Any]] = []
    before = np.zeros(0)
    for name, make in changed.items():
        said = _said(make(), two)
        before = before if len(before) else said
        figures = _figures(measured, said)
        rows.append(
            {"input": name, "moved": float(np.mean(np.abs(np.log(said / before)))), "mape": figures["mape"],
             "spearman": figures["spearman"]}
        )  # fmt: skip
    return rows


def _by_wait(predictions: pd.DataFrame, profiles: pd.DataFrame) -> list[dict[str, Any]]:
    """Part the errors on unseen pairs by what the slowed job waits for most alone."""
    if predictions.empty:
        return []
    main = _shares(profiles).idxmax(axis=1)
    boosted = predictions[predictions["predictor"] == "boosting"]
    if boosted.empty:
        return []
    table = boosted.assign(
        wait=boosted["workload"].map(main),
        error=metrics.absolute_percentage_errors(
            boosted["measured"].to_numpy(dtype=np.float64), boosted["predicted"].to_numpy(dtype=np.float64)
        ),
    )
    rows = []
    for wait in _WAITS:
        here = table[table["wait"] == wait]
        one = here[here["evidence"] == "both"]
        if len(one):
            means = here.groupby("evidence")["error"].mean()
            rows.append(
                {"short": wait, "n": len(one), "median_slowdown": float(one["measured"].median()),
                 **{name: float(means[name]) for name in EVIDENCE}}
            )  # fmt: skip
    return rows


def _single(profiles: pd.DataFrame, members: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rank correlation of single quantities with S."""
    pairs = _pairs(members)
    shares = _shares(profiles)
    jobs = profiles.set_index("workload")

    def of(column: str, side: str) -> np.ndarray:
        return pairs[side].map(jobs[column]).to_numpy(dtype=np.float64)

    def wait(resource: str, side: str) -> np.ndarray:
        return pairs[side].map(shares[resource]).to_numpy(dtype=np.float64)

    memory, pipes, units = "L2 and DRAM bandwidth", "arithmetic pipes", "shared memory and load/store units"
    found = {
        "counters": {
            "the other's DRAM throughput": of("dram", "other"),
            "both jobs' DRAM throughput": of("dram", "workload") + of("dram", "other"),
            "the other's issue activity": of("issue_active", "other"),
            "both jobs' issue activity": of("issue_active", "workload") + of("issue_active", "other"),
            "the other's warps": of("occupancy", "other"),
        },
        "stalls": {
            "the other's waits for memory": wait(memory, "other"),
            "the other's waits for shared memory": wait(units, "other"),
            "the other's waits for arithmetic": wait(pipes, "other"),
            "waits for the same resource": np.sum(
                [wait(name, "workload") * wait(name, "other") for name in _WAITS], axis=0
            ),
        },
    }
    measured = pairs["slowdown"].to_numpy(dtype=np.float64)
    return [
        {"what": kind, "quantity": name, "spearman": float(stats.spearmanr(values, measured)[0])}
        for kind, quantities in found.items()
        for name, values in quantities.items()
    ]


def _plain(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def in_words(found: Study) -> str:
    """Say what the tables say, in two sentences."""
    tests = [row for row in found.evidence if row["gain_p"] is not None]
    better = [row for row in tests if row["gain"] > 0 and row["gain_p"] < 0.05]
    worse = [row for row in tests if row["gain"] < 0 and row["gain_p"] < 0.05]
    alone = [row for row in tests if row["stalls_worse"] < 0 and row["stalls_worse_p"] < 0.05]
    white = next(row for row in found.white_box if row["k"] == 2)
    first = (
        f"Stalls beside counters lower the error significantly in {len(better)} of {len(tests)} comparisons and raise "
        f"it in {len(worse)}; stalls alone beat counters alone in {len(alone)} (Wilcoxon over folds, Holm)."
    )
    return (
        f"{first} Without training the white box is {white['mape']:.1f} % off on pairs, no interference "
        f"{white['no_interference']:.1f} %, with a rank correlation of {white['spearman']:.2f}."
    )
