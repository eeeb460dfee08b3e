"""The same twenty sets, asked in every way there is: one verdict, one figure, one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import pytest

from analysis.interference.joining import joining
from analysis.interference.matrix import slowdown_matrix
from analysis.plan.planner import with_measured_peaks
from analysis.plan.problem import Job, gpu_kind, memory_of
from analysis.plan.sets import LibraryFigures, decide, memory_now
from analysis.predict.advise.measure_next import measure_next
from analysis.predict.models import models, unanswered
from analysis.predict.models.judged import in_short, judged_pairs
from analysis.predict.models.manifest import Manifest
from analysis.predict.models.many import answers, guess_of
from analysis.report.document import Table
from analysis.report.sections import verdict
from analysis.store.database import Database
from analysis.ui.api import operations, questions
from tests.predict.conftest import WORKLOADS, make

GPU, HOW = "V100-32GB", "CUDA MPS"
NAMES = [row[0] for row in WORKLOADS]
PAIRS = [*list(combinations_with_replacement(NAMES[:5], 2))[:12], ("beta-b8", "delta-b4"), ("gamma-b8", "delta-b16")]
TRIPLES = [
    ("alpha-b2", "alpha-b2", "alpha-b8"), ("alpha-b2", "alpha-b8", "beta-b2"), ("alpha-b16", "alpha-b8", "beta-b2"),
    ("beta-b2", "beta-b8", "delta-b4"), ("alpha-b2", "delta-b4", "gamma-b8"), ("alpha-b2", "alpha-b2", "alpha-b2"),
]  # fmt: skip
SETS = [*PAIRS, *TRIPLES]

#: Those that are asked in the ways that read the data set anew for every set.
JOINED = [PAIRS[0], TRIPLES[0], TRIPLES[3]]
FIELDS = ("verdict", "why", "worst", "within_limit", "limit", "n", "evidence", "memory")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Manifest]]:
    """Pairs that ran, some that never did, one that failed, an unknown peak, peaks that exceed, a doubted baseline."""
    with Database(tmp_path_factory.mktemp("one") / "one.duckdb") as opened:
        make(opened, triples=30)
        with opened.write() as cursor:
            of = "(SELECT run_id FROM run WHERE external_id = '{}')"
            for run in (3, 12, 24):  # these never ran
                for table in ("member", "run"):
                    cursor.execute(f"DELETE FROM {table} WHERE run_id IN {of.format(run)}")
            cursor.execute(f"UPDATE run SET outcome = 'did_not_run' WHERE run_id IN {of.format(2)}")
            cursor.execute(f"UPDATE member SET slowdown = 0.9 WHERE slot = 0 AND run_id IN {of.format(10)}")
            named = "(SELECT workload_id FROM workload WHERE name = '{}')"
            cursor.execute(f"UPDATE solo SET peak_memory_mib = NULL WHERE workload_id IN {named.format('beta-b2')}")
            for job in ("gamma-b8", "delta-b16"):
                cursor.execute(f"UPDATE solo SET peak_memory_mib = 20000 WHERE workload_id IN {named.format(job)}")
        yield opened, models.train(opened, "syn", "ridge")


def test_the_twenty_sets_are_of_every_kind(asked: tuple[Database, Manifest]) -> None:
    found = answers(asked[0], asked[1].model_id, GPU, SETS, HOW, 1.4)
    assert len(SETS) == 20
    assert {one.decision.verdict for one in found} == {"share", "don't", "measure first"}
    assert {"measured", "did not run", "counters"} <= {one.decision.evidence for one in found}
    said = " ".join(one.decision.why for one in found)
    for words in ("doubtful", "failed", "probability"):
        assert words in said
    wide = " ".join(one.decision.why for one in answers(asked[0], asked[1].model_id, GPU, SETS, HOW, 9.0))
    assert "yet they ran" in wide
    assert "fit into memory together is unknown" in wide


@pytest.mark.parametrize(("model", "limit"), [("trained", 1.4), ("none", 1.2)])
def test_every_way_of_asking_gives_one_answer(asked: tuple[Database, Manifest], limit: float, model: str) -> None:
    database, card = asked
    name = card.model_id if model == "trained" else unanswered.model_id_of("syn")
    guess = guess_of(database, name, GPU, HOW, limit)
    at_once = answers(database, name, GPU, SETS, HOW, limit)
    pairs = judged_pairs(database, "syn", GPU, HOW, limit, model_id=name)
    both = {(pairs.at[at, "workload"], pairs.at[at, "partner"]): at for at in pairs.index}
    figures = LibraryFigures(database, "syn", HOW, name)
    kind = gpu_kind(GPU, 1)
    for jobs, many in zip(SETS, at_once, strict=True):
        here = _fields(many.to_json())
        names = tuple(sorted(jobs))
        memory = memory_of(with_measured_peaks(database, "syn", (kind,), [Job(job, job) for job in names]), kind)
        costs = figures.of(GPU, [names])[names]
        planned = decide(costs, limit, memory)
        assert _fields(vars(planned) | {"memory": memory_now(costs, memory)}) == here, jobs
        if len(jobs) == 2:
            at = both.get(jobs, both.get(jobs[::-1]))
            assert _fields(pairs.loc[at].to_dict() | {"worst": pairs.at[at, "figure"]}) == here, jobs
        one = models.predict(database, name, "V100", jobs, HOW, limit=limit)[0]
        assert _fields(one.to_json() | {"evidence": one.rests_on}) == here, jobs
        if jobs not in JOINED:
            continue
        rest = questions.PredictQuestion(model=name, gpu=GPU, jobs=jobs, mechanism=HOW, limit=limit)
        over = operations.answer(_operation("predict"), database, rest)[0]
        assert _fields(over | {"evidence": over["rests_on"]}) == here, jobs
        table = joining(database, "syn", GPU, HOW, jobs[:-1], limit=limit, guess=guess)
        assert _fields(table[table["partner"] == jobs[-1]].iloc[0].to_dict()) == here, jobs
        join = questions.JoinQuestion(
            gpu=GPU, workload=jobs[-1], running=jobs[:-1], dataset="syn", model=name, mechanism=HOW, limit=limit,
            reserve=0.0,
        )  # fmt: skip
        joins = operations.answer(_operation("may-join"), database, join)
        for field in ("verdict", "why", "evidence", "memory", "limit"):
            assert joins[field] == here[field], (jobs, field)
        assert joins["probability"] == pytest.approx(here["within_limit"])


def test_reports_and_suggestions_say_the_same(asked: tuple[Database, Manifest]) -> None:
    database, card = asked
    pairs = judged_pairs(database, "syn", GPU, HOW, 1.4, model_id=card.model_id)
    said = {
        tuple(sorted((row["workload"], row["partner"]))): (row["verdict"], row["why"])
        for row in pairs.to_dict("records")
    }
    matrix = slowdown_matrix(database, "syn", GPU, HOW)
    (judged,) = verdict.judge(database, [matrix], 1.4)
    assert verdict.summary([judged], 1.4) == [in_short(pairs, GPU, 1.4, simulated=matrix.simulated)]
    table = next(block for block in verdict.section([judged], 1.4).blocks if isinstance(block, Table))
    keys = [column.key for column in table.columns]
    for row in (dict(zip(keys, cells, strict=True)) for cells in table.rows):
        assert (row["verdict"], row["why"]) == said[tuple(sorted((str(row["workload"]), str(row["partner"]))))]
    plan = measure_next(database, "syn", SETS[3][0], 2, GPU, HOW, limit=1.4)
    for one in plan.suggestions:
        assert (one.verdict, one.why) == said[tuple(sorted((one.workload, one.co_workload)))]


def _operation(name: str) -> operations.Operation:
    (found,) = (one for one in operations.OPERATIONS if one.name == name)
    return found


def test_the_measurement_is_the_figure(asked: tuple[Database, Manifest]) -> None:
    database, card = asked
    found = models.predict(database, card.model_id, GPU, ["alpha-b2", "alpha-b8"], HOW)
    assert found[0].worst == max(one.measured for one in found if one.measured is not None)
    assert found[0].within_limit is None


def test_triples_are_composed_without_a_model(asked: tuple[Database, Manifest]) -> None:
    database, _ = asked
    jobs = ["alpha-b16", "gamma-b2", "delta-b4"]
    found = models.predict(database, unanswered.model_id_of("syn"), GPU, jobs, HOW)
    assert [one.rests_on for one in found] == ["composed"] * 3
    assert found[0].verdict == "measure first"
    assert found[0].worst == pytest.approx(max(one.slowdown for one in found))


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    """Return the compared fields; figures to ten digits, nothing as None."""
    found = {}
    for name in FIELDS:
        value = row[name]
        if isinstance(value, float):
            value = None if value != value else float(f"{value:.10g}")
        found[name] = value
    return found
