"""The replay itself: discrete events, jobs that progress at rates which change as their company changes.

Two ways of scheduling. Continuous: a job is placed as soon as it can be and stays until it ends. Rounds: at every
round's start all jobs are placed anew in their order, as in Gavel; a job that ends within a round frees its place at
the next one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import NotEnoughDataError, UsageError
from analysis.plan.replay.arrivals import Job
from analysis.plan.replay.pairtable import PairTable
from analysis.plan.replay.policies import Judge, Policy

#: Called with the share of jobs done; may raise to cancel.
Report = Callable[[float], None]

#: Columns of `Replay.jobs`.
JOB_COLUMNS = (
    "number", "workload", "gpus", "arrival_s", "start_s", "finish_s", "length_s", "work_s", "busy_s", "alone_s",
    "shared_s", "gpu",
)  # fmt: skip
#: Columns of `Replay.segments`.
SEGMENT_COLUMNS = ("gpu", "place", "number", "workload", "start_s", "end_s", "beside")

#: Jobs between two reports of progress.
_REPORT_EVERY = 100

#: Rest of a job's work, relative to its length, that counts as none.
_NOTHING_LEFT = 1e-9


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of one replay.

    Attributes
    ----------
    policy : str
        Name of the policy.
    jobs : pd.DataFrame
        One row a finished job: number, workload, gpus, arrival_s, start_s (first placed), finish_s, length_s (as asked
        for, alone on the reference GPU), work_s (what was done, the same measure), busy_s (time on a GPU), alone_s
        (time that the same work takes alone on the GPUs where it ran), shared_s (time with company), gpu (the last).
    segments : pd.DataFrame
        Who was where from when to when, and beside whom; empty unless asked for.
    end_s : float
        When the last of the jobs ended.
    gpu_s : float
        Time during which GPUs were occupied, summed over GPUs.
    job_s : float
        Integral of the number of jobs in the system over time.
    unfinished : int
        Jobs that had not ended when the replay stopped.
    """

    policy: str
    jobs: pd.DataFrame
    segments: pd.DataFrame
    end_s: float
    gpu_s: float
    job_s: float
    unfinished: int


@dataclass(slots=True)
class _Seat:
    """One GPU."""

    number: int
    kind: int
    members: list[int] = field(default_factory=list)
    whole: bool = False  # a part of a job on several GPUs, which nobody joins
    since: float = 0.0
    shelf: tuple[int, tuple[int, ...]] | None = None  # where it stands among those that jobs may join


class Cluster:
    """A cluster in which a policy places jobs; one replay a call of `run`.

    Parameters
    ----------
    counts : mapping of str to int
        GPUs of each kind, by the names of the truth.
    truth : PairTable
        Speeds and slowdowns that jobs really have.
    slots : int
        Jobs at once on a GPU, under policies that share.
    round_s : float, optional
        Length of a round in seconds; continuous scheduling by default.

    Raises
    ------
    UsageError
        If there is no GPU, or one of an unknown kind.
    """

    def __init__(
        self, counts: Mapping[str, int], truth: PairTable, *, slots: int = 2, round_s: float | None = None
    ) -> None:
        unknown = [name for name in counts if name not in truth.gpus]
        if unknown:
            raise UsageError(
                f"{truth.dataset} says nothing about {', '.join(unknown)}", f"Choose of {', '.join(truth.gpus)}."
            )
        if any(count < 0 for count in counts.values()) or sum(counts.values()) < 1:
            raise UsageError("the cluster has no GPU", "Give at least one, such as --gpu V100=4.")
        if slots < 1:
            raise UsageError(f"a GPU can't hold {slots} jobs", "Give 1 or more.")
        if round_s is not None and not round_s > 0:
            raise UsageError(f"a round can't last {round_s} s", "Give more than 0 seconds.")
        self.counts = dict(counts)
        self.truth = truth
        self.slots = slots
        self.round_s = round_s

    @property
    def capacity(self) -> dict[str, int]:
        """GPUs of each kind that there are any of."""
        return {name: count for name, count in self.counts.items() if count}

    def run(
        self,
        jobs: Sequence[Job],
        policy: Policy,
        *,
        seed: int = 0,
        watched: tuple[int, int] | None = None,
        segments: bool = False,
        report: Report | None = None,
    ) -> Replay:
        """Replay jobs under a policy.

        Parameters
        ----------
        jobs : sequence of Job
            In any order.
        policy : Policy
            Places them.
        seed : int
            Of what a policy draws at random.
        watched : tuple of int, optional
            Stop once all jobs with these numbers (from, up to but without) have ended.
        segments : bool
            Whether to keep who was where when.
        report : callable, optional
            Called with the share done; may raise to cancel.

        Raises
        ------
        NotEnoughDataError
            If a job can run on none of the GPUs.
        NotFoundError
            If a job's workload is unknown.
        """
        return _Run(self, jobs, policy, seed, watched, segments, report).go()


class _Run:
    """The state of one replay."""

    def __init__(
        self, cluster: Cluster, jobs: Sequence[Job], policy: Policy, seed: int, watched: tuple[int, int] | None,
        segments: bool, report: Report | None,
    ) -> None:  # fmt: skip
        self.cluster, self.policy, self.report = cluster, policy, report
        self.truth = cluster.truth
        self.slots = cluster.slots if policy.judge is not None else 1
        self.rng = Random(seed)  # noqa: S311 - a replay, not a secret
        self.jobs = sorted(jobs, key=lambda job: (job.arrival_s, job.number))
        self.types = [self.truth.position(job.workload) for job in self.jobs]
        kinds = [self.truth.gpus.index(name) for name, count in cluster.counts.items() for _ in range(count)]
        self.seats = [_Seat(number, kind) for number, kind in enumerate(kinds)]
        self.free = {
            kind: [seat for seat in reversed(self.seats) if seat.kind == kind] for kind in dict.fromkeys(kinds)
        }
        self.speed = self.truth.speed.tolist()
        # Kinds from the fastest to the slowest, for each workload; those on which it was never measured are left out.
        self.preference = [
            sorted(
                (kind for kind in self.free if not math.isnan(self.speed[kind][own])),
                key=lambda kind, own=own: -self.speed[kind][own],  # type: ignore[misc]
            )
            for own in range(len(self.truth.workloads))
        ]
        self._check(cluster)
        size = len(self.jobs)
        self.left = [job.length_s for job in self.jobs]
        self.rate, self.updated = [0.0] * size, [0.0] * size
        self.busy, self.alone, self.shared, self.work = [0.0] * size, [0.0] * size, [0.0] * size, [0.0] * size
        self.start: list[float] = [math.nan] * size
        self.finish: list[float] = [math.nan] * size
        self.places: list[tuple[_Seat, ...]] = [()] * size
        self.last_kind = [-1] * size
        self.version = [0] * size
        self.waiting: list[int] = []
        self.gpu_s = self.job_s = self.clock = 0.0
        self.inside = self.done = 0
        low, high = watched if watched is not None else (-math.inf, math.inf)
        self.awaited = sum(low <= job.number < high for job in self.jobs)
        self.is_watched = [low <= job.number < high for job in self.jobs]
        self.keep = segments
        self.segments: list[tuple[Any, ...]] = []
        self.opened: dict[int, tuple[float, tuple[int, ...]]] = {}
        self.joinable: dict[tuple[int, tuple[int, ...]], dict[int, _Seat]] = {}
        self.rankings: dict[int, tuple[int, list[tuple[float, tuple[int, tuple[int, ...]]]]]] = {}
        self._rates: dict[tuple[int, tuple[int, ...]], tuple[float, ...]] = {}

    def _check(self, cluster: Cluster) -> None:
        for job, own in zip(self.jobs, self.types, strict=True):
            if not any(cluster.counts[self.truth.gpus[kind]] >= job.gpus for kind in self.preference[own]):
                raise NotEnoughDataError(
                    f"job {job.number} ({job.workload}, {job.gpus} GPUs) can run on none of "
                    f"{', '.join(f'{count} {name}' for name, count in cluster.capacity.items())}",
                    "Add GPUs of a kind that it was measured on, or leave it out of the trace.",
                )

    def go(self) -> Replay:
        if self.cluster.round_s is None:
            self._continuous()
        else:
            self._rounds(self.cluster.round_s)
        names = self.truth.gpus
        rows = [
            (
                job.number, job.workload, job.gpus, job.arrival_s, self.start[i], self.finish[i], job.length_s,
                self.work[i], self.busy[i], self.alone[i], self.shared[i], names[self.last_kind[i]],
            )
            for i, job in enumerate(self.jobs)
            if not math.isnan(self.finish[i])
        ]  # fmt: skip
        frame = pd.DataFrame(rows, columns=list(JOB_COLUMNS))
        end = float(frame["finish_s"].max()) if rows else 0.0
        return Replay(
            self.policy.name, frame, pd.DataFrame(self.segments, columns=list(SEGMENT_COLUMNS)), end, self.gpu_s,
            self.job_s, len(self.jobs) - len(rows),
        )  # fmt: skip

    # -- continuous ---------------------------------------------------------------------------------------------------

    def _continuous(self) -> None:
        events: list[tuple[float, int, int, int]] = [(job.arrival_s, 1, i, 0) for i, job in enumerate(self.jobs)]
        heapq.heapify(events)
        self.events = events
        while events and self.awaited:
            now, kind, i, version = heapq.heappop(events)
            if kind == 0 and version != self.version[i]:
                continue  # its company has changed since
            self._advance_clock(now)
            if kind == 1:
                self.inside += 1
                self.waiting.append(i)
            else:
                self._leave(i, now)
            # Everything at the same moment is one decision, and departures come first.
            if events and events[0][0] == now:
                continue
            self._place(now)

    def _advance_clock(self, now: float) -> None:
        self.job_s += self.inside * (now - self.clock)
        self.clock = now

    def _leave(self, i: int, now: float) -> None:
        seats = self.places[i]
        self._settle(seats[0], now)
        self.left[i] = 0.0
        self.version[i] += 1
        for seat in seats:
            self._close(seat, now)
            seat.members.remove(i)
            seat.whole = False
            if seat.members:
                self._open(seat, now)
            else:
                self.gpu_s += now - seat.since
                self.free[seat.kind].append(seat)
        if seats[0].members:
            self._restart(seats[0], now)
        self._finished(i, now)

    def _finished(self, i: int, now: float) -> None:
        self.finish[i] = now
        self.inside -= 1
        self.done += 1
        self.awaited -= self.is_watched[i]
        if self.report is not None and self.done % _REPORT_EVERY == 0:
            self.report(self.done / len(self.jobs))

    def _settle(self, seat: _Seat, now: float) -> None:
        """Book what the members have done since they were last looked at."""
        company = len(seat.members) > 1
        for i in seat.members:
            passed = now - self.updated[i]
            self._book(i, seat.kind, passed, company)
            self.updated[i] = now

    def _book(self, i: int, kind: int, passed: float, company: bool) -> None:
        done = self.rate[i] * passed
        self.left[i] -= done
        self.work[i] += done
        self.busy[i] += passed
        self.alone[i] += done / self.speed[kind][self.types[i]]
        if company:
            self.shared[i] += passed

    def _restart(self, seat: _Seat, now: float) -> None:
        """Give the members their rates in the present company, and say when each would end."""
        for i, rate in zip(seat.members, self._rates_of(seat), strict=True):
            self.rate[i] = rate
            self.version[i] += 1
            heapq.heappush(self.events, (now + max(self.left[i], 0.0) / rate, 0, i, self.version[i]))

    def _rates_of(self, seat: _Seat) -> tuple[float, ...]:
        members = tuple(self.types[i] for i in seat.members)
        key = (seat.kind, members)
        found = self._rates.get(key)
        if found is None:
            slowdowns = self.truth.slowdowns(seat.kind, members) if len(members) > 1 else (1.0,)
            speeds = self.speed[seat.kind]
            found = tuple(speeds[own] / paid for own, paid in zip(members, slowdowns, strict=True))
            self._rates[key] = found
        return found

    def _place(self, now: float) -> None:
        """Start what can be started, in the order of the policy."""
        if not self.waiting:
            return
        if self.policy.order == "shortest":
            self.waiting.sort(key=lambda i: (self.jobs[i].length_s, i))
        else:
            self.waiting.sort()
        stay: list[int] = []
        blocked = False  # an earlier job waits: nobody behind it takes a free GPU
        refused: set[int] = set()
        for position, i in enumerate(self.waiting):
            seats = () if blocked else self._free_for(i)
            if seats:
                self._start(i, seats, now)
                continue
            blocked = True
            own = self.types[i]
            seat = None
            if self.policy.judge is not None and self.jobs[i].gpus == 1 and own not in refused:
                seat = self._join_for(own)
                if seat is None:
                    refused.add(own)
            if seat is not None:
                self._settle(seat, now)
                self._start(i, (seat,), now)
                continue
            stay.append(i)
            if self.policy.judge is None or not self.policy.overtake:
                stay.extend(self.waiting[position + 1 :])
                break
        self.waiting = stay

    def _free_for(self, i: int) -> tuple[_Seat, ...]:
        need, wanted = self.jobs[i].gpus, [kind for kind in self.preference[self.types[i]] if self.free[kind]]
        wanted = [kind for kind in wanted if len(self.free[kind]) >= need]
        if not wanted:
            return ()
        kind = wanted[0] if self.policy.gpu == "best" else self.rng.choice(wanted)
        return tuple(self.free[kind].pop() for _ in range(need))

    def _join_for(self, own: int) -> _Seat | None:
        """Return the GPU that a workload joins best; of equal ones that whose jobs came first."""
        judge = self.policy.judge
        if judge is None or self.slots < 2:
            return None
        if judge.draws:
            found = [(judge.score(*key, own, self.rng), seats) for key, seats in self.joinable.items() if seats]
            able = [seat for score, seats in found if score is not None for seat in seats.values()]
            return self.rng.choice(able) if able else None
        best: _Seat | None = None
        highest = -math.inf
        for score, key in self._ranking(own, judge):
            if score < highest:
                break
            for seat in self.joinable[key].values():
                if best is None or seat.members < best.members:
                    best, highest = seat, score
                break
        return best

    def _ranking(self, own: int, judge: Judge) -> list[tuple[float, tuple[int, tuple[int, ...]]]]:
        """Return the sets that a workload may join, the best first, of all that there ever were."""
        known, ranking = self.rankings.get(own, (0, []))
        if known < len(self.joinable):
            scores = ((judge.score(*key, own, self.rng), key) for key in self.joinable)
            ranking = sorted(
                ((score, key) for score, key in scores if score is not None), key=lambda one: one[0], reverse=True
            )
            self.rankings[own] = (len(self.joinable), ranking)
        return ranking

    def _shelve(self, seat: _Seat) -> None:
        """Offer a GPU to jobs that may join, by what runs on it."""
        if self.slots > 1 and seat.members and not seat.whole and len(seat.members) < self.slots:
            key = (seat.kind, tuple(self.types[i] for i in seat.members))
            self.joinable.setdefault(key, {})[seat.number] = seat
            seat.shelf = key

    def _unshelve(self, seat: _Seat) -> None:
        if seat.shelf is not None:
            del self.joinable[seat.shelf][seat.number]
            seat.shelf = None

    def _start(self, i: int, seats: tuple[_Seat, ...], now: float) -> None:
        for seat in seats:
            if seat.members:
                self._close(seat, now)
            else:
                seat.since = now
            seat.members.append(i)
            seat.whole = len(seats) > 1
            self._open(seat, now)
        self.places[i] = seats
        self.last_kind[i] = seats[0].kind
        self.updated[i] = now
        if math.isnan(self.start[i]):
            self.start[i] = now
        if self.cluster.round_s is None:
            self._restart(seats[0], now)

    def _open(self, seat: _Seat, now: float) -> None:
        self._shelve(seat)
        if self.keep:
            self.opened[seat.number] = (now, tuple(seat.members))

    def _close(self, seat: _Seat, now: float) -> None:
        self._unshelve(seat)
        found = self.opened.pop(seat.number, None)
        if found is None or found[0] == now:
            return
        for i in found[1]:
            beside = ", ".join(self.jobs[other].workload for other in found[1] if other != i)
            self.segments.append(
                (
                    self.truth.gpus[seat.kind],
                    seat.number,
                    self.jobs[i].number,
                    self.jobs[i].workload,
                    found[0],
                    now,
                    beside,
                )
            )

    # -- rounds -------------------------------------------------------------------------------------------------------

    def _rounds(self, length: float) -> None:
        now, coming = 0.0, 0
        active: list[int] = []
        changed = False
        while self.awaited and (active or coming < len(self.jobs)):
            if not active and coming < len(self.jobs):
                now = max(now, self.jobs[coming].arrival_s)  # rounds begin again with the next job
                self.clock = max(self.clock, now)
            while coming < len(self.jobs) and self.jobs[coming].arrival_s <= now:
                # It has been in the system since it came, though no round has begun since.
                self.job_s += self.clock - self.jobs[coming].arrival_s
                active.append(coming)
                coming, changed = coming + 1, True
                self.inside += 1
            if changed:
                self._deal(active, now)
                changed = False
            running = [(seat, i) for seat in self.seats for i in seat.members if self.places[i][0] is seat]
            until = min((now + self.left[i] / self.rate[i] for _, i in running), default=math.inf)
            if coming < len(self.jobs):
                until = min(until, self.jobs[coming].arrival_s)
            end = now + max(1, math.ceil((until - now) / length - _NOTHING_LEFT)) * length
            gone = []
            for seat, i in running:
                need = self.left[i] / self.rate[i]
                passed = min(need, end - now)
                self._book(i, seat.kind, passed, len(seat.members) > 1)
                if self.left[i] <= _NOTHING_LEFT * self.jobs[i].length_s:
                    gone.append((now + passed, i))
            for moment, i in sorted(gone):
                self._advance_clock(moment)
                self._finished(i, moment)
            self._advance_clock(end)
            if gone:
                finished = {i for _, i in gone}
                active = [i for i in active if i not in finished]
                changed = True
            self.gpu_s += (end - now) * sum(bool(seat.members) for seat in self.seats)
            now = end
            if changed and not active:
                self._clear(now)

    def _clear(self, now: float) -> None:
        for seat in self.seats:
            self._close(seat, now)
            seat.members, seat.whole = [], False
        self.free = {kind: [seat for seat in reversed(self.seats) if seat.kind == kind] for kind in self.free}

    def _deal(self, active: Sequence[int], now: float) -> None:
        """Place all jobs anew."""
        self._clear(now)
        self.waiting = list(active)
        self._place(now)
        for seat in self.seats:
            if seat.members:
                for i, rate in zip(seat.members, self._rates_of(seat), strict=True):
                    self.rate[i] = rate


def makespan(replay: Replay) -> float:
    """Return the seconds from the first arrival to the last end; NaN for no job."""
    return float(replay.end_s - replay.jobs["arrival_s"].min()) if len(replay.jobs) else float(np.nan)
