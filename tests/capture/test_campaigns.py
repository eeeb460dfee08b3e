"""Campaign files, order, budget and resumption, and the arithmetic of repeats; no job is started here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.capture.campaign import run
from analysis.capture.corun import Measured, Member, Timing
from analysis.capture.fakenvml import moving_machine
from analysis.capture.files import mean, slowdown, t_quantile
from analysis.capture.journal import NAME
from analysis.capture.plan import Plan, Task, all_pairs, informative, read_plan
from analysis.capture.process import JobSpec
from analysis.capture.rate import Mark, RateBy, rate
from analysis.capture.readings import Reader
from analysis.errors import InputRefusedError, UsageError

FILE = """
mechanism = "mps"
seconds = 3
repeats = 2
budget_minutes = 5
sets = [["bert", "lstm", "gan"]]

[jobs.bert]
command = "python bert.py --batch 8"
throughput = "regex"
pattern = '([\\d.]+) samples/s'
unit = "samples/s"
[jobs.lstm]
command = ["python", "lstm.py"]
[jobs.gan]
command = "python gan.py"
environment = { SEED = "1" }
"""


def made_up(plan: Plan, task: Task, *_: object) -> list[Measured]:
    """Measure nothing: job n runs at 100 / (n + 1), and at half of that beside others."""
    half = 0.5 if len(task.names) > 1 else 1.0
    rates = [half * 100 / (1 + list(plan.jobs).index(name)) for name in task.names]
    members = tuple(
        Member(name, "ran", value, "it/s") for name, value in zip(task.names, rates, strict=True)
    )  # fmt: skip
    return [Measured("exclusive" if half == 1 else "CUDA MPS", members, 3.0, "2026-01-01T00:00:00Z")]


def test_a_campaign_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(FILE)
    plan = read_plan(path)
    assert plan.jobs["bert"].command == ("python", "bert.py", "--batch", "8")
    assert plan.jobs["gan"].environment == {"SEED": "1"}
    assert plan.budget == 300
    keys = [task.key for task in plan.tasks()]
    assert len(keys) == len(set(keys)) == 2 * (3 + 6 + 1)
    assert [key.endswith("#1") for key in keys] == [True] * 10 + [False] * 10
    assert keys[:3] == ["bert #1", "lstm #1", "gan #1"]
    assert keys[9] == "bert + lstm + gan #1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("mechanism", "mechanisms"), "unknown entry 'mechanisms'"),
        (('"mps"', '"magic"'), "mechanism 'magic' is unknown"),
        (('"gan"]]', '"gone"]]'), "there is no job 'gone'"),
        (("'([\\d.]+) samples/s'", "'[\\d.]+'"), "has no group"),
        (("seconds = 3", "seconds = -3"), "seconds -3 is no number"),
        (("[jobs.lstm]", "[jobs.lstm"), "no TOML"),
    ],
)
def test_a_wrong_campaign_file_is_refused_with_its_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    path = tmp_path / "c.toml"
    path.write_text(FILE.replace(*change, 1))
    with pytest.raises(InputRefusedError, match=r"c\.toml") as caught:
        read_plan(path)
    assert said in caught.value.sentence


def test_the_most_informative_sets_come_first() -> None:
    names = "abcdefgh"
    order = informative(all_pairs(names))
    assert sorted(order) == sorted(all_pairs(names))
    assert {name for pair in order[:4] for name in pair} == set(names)  # nobody twice before everybody once
    assert not any(first == second for first, second in order[:8])  # a twin tells of a sum only
    # Against the definition, by numpy: each gains at least as much as any that comes later.
    rows = {pair: np.zeros((2, 16)) for pair in order}
    for pair, row in rows.items():
        for victim, name in enumerate(pair):
            row[victim, names.index(name)] = 1
            row[victim, 8 + names.index(pair[1 - victim])] += 1
    covariance = 0.3**2 * np.eye(16)
    for place, pair in enumerate(order[:12]):
        gains = [
            np.linalg.slogdet(np.eye(2) + rows[one] @ covariance @ rows[one].T / 0.05**2)[1] for one in order[place:]
        ]
        assert gains[0] >= max(gains) - 1e-9
        x = rows[pair]
        covariance -= covariance @ x.T @ np.linalg.inv(x @ covariance @ x.T + 0.05**2 * np.eye(2)) @ x @ covariance


def test_a_campaign_keeps_to_its_time_and_goes_on_after_it_was_killed(tmp_path: Path) -> None:
    jobs = {name: JobSpec(name, ("x",)) for name in "abc"}
    plan = Plan(jobs, tuple(all_pairs("abc")), timing=Timing(seconds=1, warmup=0), budget=1.001)
    reader = Reader(moving_machine)
    kept = Plan(jobs, plan.sets, timing=plan.timing, budget=0.5)
    nothing = run(kept, tmp_path, reader=reader, pick=made_up)
    assert (nothing.new, nothing.left) == (0, 9)

    def killed(some: Plan, task: Task, *rest: object) -> list[Measured]:
        if task.key == "a + b #1":
            raise KeyboardInterrupt
        return made_up(some, task, *rest)

    whole = Plan(jobs, plan.sets, timing=plan.timing)
    with pytest.raises(KeyboardInterrupt):
        run(whole, tmp_path, reader=reader, pick=killed)
    journal = tmp_path / NAME
    before = journal.read_text().count("\n")
    journal.write_text(journal.read_text() + '{"key": "a + b #1", "names": ["a", "b"], "mea')  # cut off by the kill
    done = run(whole, tmp_path, reader=reader, pick=made_up)
    assert done.new == 9 - (before - 1)
    assert (done.left, done.failed) == (0, 0)
    assert all(one["slowdown"] == pytest.approx(2.0) for one in done.slowdowns)
    runs = [line.split(",")[0] for path in done.files if path.name.startswith("coruns") for line in path.open()]
    assert len([one for one in runs if one != "run_id"]) == 12  # six pairs of two, over two sessions, none twice
    assert len(set(runs)) == 7
    other = Plan({"a": JobSpec("a", ("y",))}, ())
    with pytest.raises(InputRefusedError, match="campaign of other jobs"):
        run(other, tmp_path, reader=reader, pick=made_up)


def test_intervals_are_those_of_students_t() -> None:
    assert [t_quantile(n) for n in (1, 5, 30, 60, 500)] == pytest.approx(
        stats.t.ppf(0.975, [1, 5, 30, 60, 500]), rel=1e-3
    )
    assert (mean([3.0]).low, slowdown([2.0], [1.0]).low) == (None, None)
    solo, corun = [100.0, 104.0, 99.0], [50.0, 55.0, 52.0]
    found = slowdown(solo, corun)
    expected = stats.ttest_ind(np.log(solo), np.log(corun), equal_var=False)
    assert found.value == pytest.approx(np.exp(np.mean(np.log(solo)) - np.mean(np.log(corun))))
    wide = expected.confidence_interval(0.95)
    assert found.low is not None
    assert found.low <= np.exp(wide.low) * 1.001  # whole degrees of freedom: never narrower than the exact one
    assert found.high is not None
    assert found.high >= np.exp(wide.high) * 0.999


def test_a_rate_counts_what_is_whole_within_the_window() -> None:
    marks = [Mark(0.1 * n, n) for n in range(100)]
    assert rate(marks, 1.05, 4.04, "lines") == pytest.approx(10)
    assert rate(marks, 1.05, 1.32, "lines") is None
    printed = [Mark(0, 5), Mark(1, 10), Mark(2, 10), Mark(4, 40)]
    assert rate(printed, 0, 4, "regex") == pytest.approx((10 + 10 + 2 * 40) / 4)
    with pytest.raises(UsageError, match="no regular expression"):
        RateBy("lines", "(")


def test_the_interval_rests_on_starts_and_not_on_their_windows(tmp_path: Path) -> None:
    rates = {"a #1": (30.0, 31.0), "a #2": (50.0, 49.0)}

    def two_windows(plan: Plan, task: Task, *rest: object) -> list[Measured]:
        one = made_up(plan, task, *rest)[0]
        return [replace(one, members=(replace(one.members[0], rate=rate),)) for rate in rates[task.key]]

    jobs = {"a": JobSpec("a", ("x",))}
    one = run(Plan(jobs, (), repeats=1), tmp_path / "one", reader=Reader(moving_machine), pick=two_windows)
    assert (one.solos["a"].n, one.solos["a"].windows, one.solos["a"].low) == (1, 2, None)
    two = run(Plan(jobs, (), repeats=2), tmp_path / "two", reader=Reader(moving_machine), pick=two_windows).solos["a"]
    assert (two.n, two.windows) == (2, 4)
    assert two.low is not None
    assert two.high is not None
    assert two.low < 30 < 50 < two.high
