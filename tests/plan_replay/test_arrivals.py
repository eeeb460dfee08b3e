"""Traces are read as they are written, and what makes no sense is refused with its line."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import InputRefusedError, UsageError
from analysis.plan.replay.arrivals import GAVEL_WORKLOADS, drawn_jobs, gavel_jobs, read_trace


def write(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_own_trace(tmp_path: Path) -> None:
    path = write(tmp_path, "workload,arrival_s,length_s,gpus\nb,30,5,1\na,10,7.5,2\n")
    jobs = read_trace(path)
    assert [(job.number, job.workload, job.arrival_s, job.length_s, job.gpus) for job in jobs] == [
        (0, "a", 0.0, 7.5, 2), (1, "b", 20.0, 5.0, 1),
    ]  # fmt: skip


def test_gaps_add_up(tmp_path: Path) -> None:
    jobs = read_trace(write(tmp_path, "workload;gap_s;length_s\na;0;1\nb;2;1\nc;3;1\n"))
    assert [job.arrival_s for job in jobs] == [0.0, 2.0, 5.0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,-1,5", "line 2: arrival_s is -1"),
        ("a,,5", "line 2: arrival_s is missing"),
        ("a,x,5", "line 2: arrival_s is no number: 'x'"),
        ("a,0,0", "line 2: length_s is 0"),
        ("a,nan,1", "line 2: arrival_s is nan"),
        (",0,1", "names no workload"),
    ],
)
def test_values_that_make_no_sense(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(InputRefusedError, match=said):
        read_trace(write(tmp_path, f"workload,arrival_s,length_s\n{line}\n"))


def test_a_negative_gap_and_missing_columns(tmp_path: Path) -> None:
    with pytest.raises(InputRefusedError, match="line 3: gap_s is -4"):
        read_trace(write(tmp_path, "workload,gap_s,length_s\na,0,1\na,-4,1\n"))
    with pytest.raises(InputRefusedError, match="no column for when jobs come"):
        read_trace(write(tmp_path, "workload,length_s\na,1\n"))
    with pytest.raises(InputRefusedError, match="holds no job"):
        read_trace(write(tmp_path, "\n"))


def test_gavels_trace_has_steps_that_become_seconds(tmp_path: Path) -> None:
    rest = "python3 main.py\t/dir\t--steps\t1"
    path = write(tmp_path, f"A3C\t{rest}\t700\t1\t1\t-1\t0\nCycleGAN\t{rest}\t100\t2\t1\t-1\t60.5\n")
    jobs = read_trace(path, steps_per_s={"A3C": 7.0, "CycleGAN": 4.0})
    assert [(job.workload, job.length_s, job.gpus, job.arrival_s) for job in jobs] == [
        ("A3C", 100.0, 1, 0.0), ("CycleGAN", 25.0, 2, 60.5),
    ]  # fmt: skip
    with pytest.raises(InputRefusedError, match="line 2: no throughput in steps a second is known for 'CycleGAN'"):
        read_trace(path, steps_per_s={"A3C": 7.0})


def test_openb_names_no_workloads(tmp_path: Path) -> None:
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    rows = [
        "p0,1,1,1,460,,LS,Running,100,400,150",
        "p1,1,1,0,0,,LS,Running,100,400,150",
        "p2,1,1,2,1000,,BE,Failed,90,,",
    ]
    path = write(tmp_path, "\n".join([head, *rows, "p3,1,1,2,1000,,LS,Succeeded,160,260,160"]))
    jobs = read_trace(path, ("a", "b"))
    assert [(job.arrival_s, job.length_s, job.gpus) for job in jobs] == [(0.0, 250.0, 1), (60.0, 100.0, 2)]
    with pytest.raises(InputRefusedError, match="none to draw from"):
        read_trace(path)


def test_the_openb_table_of_alibaba(cases: Path) -> None:
    path = cases.parent / "placement" / "openb_pods.csv"
    if not path.is_file():
        pytest.skip("no openb table beside this checkout")
    jobs = read_trace(path, ("a", "b"))
    assert len(jobs) > 1000
    assert all(one.arrival_s <= other.arrival_s for one, other in itertools.pairwise(jobs))


def test_gavels_jobs_are_the_same_for_every_rate_but_for_when_they_come() -> None:
    slow, fast = gavel_jobs(500, 1.0, 0), gavel_jobs(500, 5.0, 0)
    assert [job.workload for job in slow] == [job.workload for job in fast]
    assert [job.arrival_s for job in slow] == pytest.approx([5 * job.arrival_s for job in fast])
    lengths = np.array([job.length_s for job in slow])
    assert lengths.min() >= 60 * 10**1.5
    assert lengths.max() <= 60 * 10**4
    assert (lengths > 60_000).mean() == pytest.approx(0.2, abs=0.06)
    assert len(GAVEL_WORKLOADS) == 26


@pytest.mark.parametrize("kind", ["poisson", "bursts"])
def test_drawn_jobs_come_at_the_rate_and_have_the_mean_length(kind: str) -> None:
    jobs = drawn_jobs(kind, 4000, 7.0, 1, ("a", "b"), mean_length_s=100.0)
    assert len(jobs) / (jobs[-1].arrival_s / 3600) == pytest.approx(7.0, rel=0.1)
    assert np.mean([job.length_s for job in jobs]) == pytest.approx(100.0, rel=0.1)


def test_all_at_once_and_nonsense() -> None:
    assert {job.arrival_s for job in drawn_jobs("at-once", 5, 0.0, 0, ("a",))} == {0.0}
    with pytest.raises(UsageError, match="make no sense"):
        drawn_jobs("poisson", 5, -1.0, 0, ("a",))
    with pytest.raises(UsageError, match="there are no arrivals"):
        drawn_jobs("weekly", 5, 1.0, 0, ("a",))
