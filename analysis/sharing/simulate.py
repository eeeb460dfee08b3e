"""The simulator: sets of jobs, a GPU and a mechanism to slowdowns and latencies, many sets at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, permutations

import numpy as np
import numpy.typing as npt

from analysis.errors import NotFoundError, UsageError
from analysis.interference.mechanisms import OVERLOADED
from analysis.sharing import engine
from analysis.sharing.corun import HEAD_OF_LINE
from analysis.sharing.demands import machine as find_machine
from analysis.sharing.layout import Layout, shared
from analysis.sharing.mechanisms import CudaMps, Mechanism, Mig, TimeSlicing
from analysis.sharing.partitions import instances, mig_choices, mig_profiles
from analysis.sharing.work import Service, Workload

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


#: Members that may meet in one set: beyond that the combinations of phases are too many.
MOST_MEMBERS = 4


@dataclass(frozen=True)
class CoRun:
    """What a set of jobs does to one another.

    Attributes
    ----------
    gpu, mechanism : str
        Where and how.
    workloads : tuple of str
        The members, in the order given.
    outcome : {"ran", "did_not_run"}
        A set whose memory does not fit does not run.
    note : str
        Why it did not run; empty otherwise.
    labels : tuple of str
        What each member was given (MIG profile, share of the SMs).
    priority : tuple of int
        Rank of each member; higher goes first.
    slowdown : ndarray (k,)
        S of each member; NaN if it did not run.
    p50_solo_ms, p99_solo_ms, p50_ms, p99_ms : ndarray (k,)
        Latencies of a server's requests alone and in the set; NaN for jobs that serve nobody, infinite for a server
        that can't keep up.
    step_p50_ms, step_p99_ms : ndarray (k,)
        Percentiles of a server's step in the set: the time per output token of LLM decoding.
    utilisation : ndarray (k,)
        Of each server in the set; NaN for jobs that serve nobody.
    """

    gpu: str
    mechanism: str
    workloads: tuple[str, ...]
    outcome: str
    note: str
    labels: tuple[str, ...]
    priority: tuple[int, ...]
    slowdown: Floats
    p50_solo_ms: Floats
    p99_solo_ms: Floats
    p50_ms: Floats
    p99_ms: Floats
    step_p50_ms: Floats
    step_p99_ms: Floats
    utilisation: Floats

    @property
    def overloaded(self) -> npt.NDArray[np.bool_]:
        """Which members are servers that get requests faster than they answer them (k,)."""
        return self.utilisation >= 1

    def remark(self, slot: int) -> str:
        """Say what has to be known of a member beside its figures: why it did not run, or that it can't keep up."""
        if self.overloaded[slot]:
            return f"{OVERLOADED} with its requests: utilisation {self.utilisation[slot]:.2f}, so no latency is finite"
        return self.note


class Simulator:
    """Simulates jobs on one GPU.

    A job's slowdown in a set is the largest over the parts of the set that contain it. A third job can slow a second so
    much that the first gets on better than with the second alone; the model does not count on such relief, so company
    never speeds anyone up.

    Parameters
    ----------
    gpu : str
        Any spelling of a GPU that `analysis.sharing.demands.machines` lists.
    workloads : sequence of Workload
        The jobs that sets are made of.
    head_of_line : float
        How far kernels that don't fit beside each other take turns, 0 to 1.
    """

    def __init__(self, gpu: str, workloads: Sequence[Workload], *, head_of_line: float = HEAD_OF_LINE) -> None:
        self.machine = find_machine(gpu)
        self.jobs = engine.job_table(workloads, self.machine)
        self._places = {workload.name: place for place, workload in enumerate(workloads)}
        self._head_of_line = head_of_line

    @property
    def workloads(self) -> list[str]:
        """Names of the jobs, in the order given."""
        return list(self._places)

    def step_ms(self, workload: str) -> float:
        """Return the time of one step alone on the GPU, the host's part included, without idling for requests."""
        return float(self.jobs.step_us[self._place(workload)]) / 1e3

    def duty(self, workload: str) -> float:
        """Return the share of a step in which a kernel of the job is on the GPU."""
        place = self._place(workload)
        return float(self.jobs.busy_us[place] / self.jobs.step_us[place])

    def fits(self, workload: str) -> bool:
        """Say whether the job's memory fits onto the GPU."""
        return CudaMps().layout(self.machine, 1).misfit(self._memory((self._place(workload),))) is None

    def pairs(self, mechanism: Mechanism | None = None) -> list[CoRun]:
        """Co-run all unordered pairs, each workload with itself too."""
        return self.co_run(list(combinations_with_replacement(self.workloads, 2)), mechanism)

    def co_run(self, sets: Sequence[Sequence[str]], mechanism: Mechanism | None = None) -> list[CoRun]:
        """Co-run sets of jobs.

        Parameters
        ----------
        sets : sequence of sequence of str
            Names of the members of each set; a name may stand twice.
        mechanism : Mechanism, optional
            How they share the GPU; CUDA MPS by default.

        Returns
        -------
        list of CoRun
            One a set, in order.

        Raises
        ------
        NotFoundError
            If a workload is unknown.
        UsageError
            If more than four jobs meet in a set, or the mechanism does not take the set.
        """
        how = mechanism or CudaMps()
        groups: list[engine.Group] = []
        for names in sets:
            members = tuple(self._place(name) for name in names)
            if isinstance(how, Mig) and not how.profiles:
                layout = self._cut(members)
            else:
                layout = how.layout(self.machine, len(members))
            if max(len(part) for part in engine.components(layout)) > MOST_MEMBERS:
                raise UsageError(
                    f"{len(members)} jobs share one GPU", f"The simulator takes up to {MOST_MEMBERS} that meet."
                )
            groups.append((members, layout))
        notes = [layout.misfit(self._memory(members)) for members, layout in groups]
        fitting = [group for group, note in zip(groups, notes, strict=True) if note is None]
        solved = engine.slowdowns(self.jobs, fitting, how, self._head_of_line)
        turn = (how.quantum_ms + how.switch_ms) / 2 if isinstance(how, TimeSlicing) else 0.0
        latencies = _latencies(self.jobs, fitting, solved, turn)
        found = iter(zip(solved, latencies, strict=True))
        return [
            self._result(group, how, note or "", None if note is not None else next(found))
            for group, note in zip(groups, notes, strict=True)
        ]

    def refused(self, names: Sequence[str], mechanism: Mechanism, why: str) -> CoRun:
        """Return a run that did not take place, for a mechanism that does not take the set."""
        members = tuple(self._place(name) for name in names)
        return self._result((members, shared(self.machine, len(members))), mechanism, why, None)

    def _place(self, name: str) -> int:
        if name not in self._places:
            known = ", ".join(self._places)
            raise NotFoundError(f"the simulator has no workload {name!r}", f"It has {known}.")
        return self._places[name]

    def _memory(self, members: tuple[int, ...]) -> Floats:
        return np.array([self.jobs.workloads[member].memory_mib for member in members])

    def _cut(self, members: tuple[int, ...]) -> Layout:
        """Cut the GPU for the largest sum of speeds. Instances don't interact, so each job is tried alone in each."""
        choices = mig_choices(self.machine, len(members))
        if not choices:
            # Says that the GPU can't be partitioned, or that there are too many members.
            names = list(mig_profiles(self.machine))
            return instances(self.machine, tuple((names or ["1g"])[:1] * len(members)))
        memory = self._memory(members)
        speeds: dict[tuple[int, str], float] = {}
        for profile in mig_profiles(self.machine).values():
            layout = instances(self.machine, (profile.name,))
            able = [m for m, need in zip(members, memory, strict=True) if need <= profile.memory_mib]
            solved = engine.slowdowns(self.jobs, [((m,), layout) for m in able], Mig(), self._head_of_line)
            speeds |= {(m, profile.name): 1 / float(s[0]) for m, s in zip(able, solved, strict=True)}
        best, total = choices[-1], -1.0
        for choice in choices:
            for order in sorted(set(permutations(choice)), key=lambda parts: [p.name for p in parts]):
                reached = [speeds.get((m, p.name), 0.0) for m, p in zip(members, order, strict=True)]
                # A choice that leaves one out is worse than any that doesn't.
                value = sum(reached) if all(reached) else 0.0
                if value > total + 1e-9:
                    best, total = order, value
        return instances(self.machine, tuple(profile.name for profile in best))

    def _result(
        self, group: engine.Group, how: Mechanism, note: str, found: tuple[Floats, dict[str, Floats]] | None
    ) -> CoRun:
        members, layout = group
        unknown = np.full(len(members), np.nan)
        slowdown, latencies = (unknown, dict.fromkeys(_LATENCIES, unknown)) if found is None else found
        return CoRun(
            gpu=self.machine.name,
            mechanism=how.name,
            workloads=tuple(self.jobs.workloads[member].name for member in members),
            outcome="did_not_run" if found is None else "ran",
            note=note,
            labels=layout.labels,
            priority=tuple(layout.priority.tolist()),
            slowdown=slowdown,
            **latencies,
        )


_LATENCIES = ("p50_solo_ms", "p99_solo_ms", "p50_ms", "p99_ms", "step_p50_ms", "step_p99_ms", "utilisation")


def _latencies(
    jobs: engine.JobTable, groups: list[engine.Group], slowdowns: list[Floats], turn_ms: float
) -> list[dict[str, Floats]]:
    """Walk the queues of all servers of all sets at once."""
    results = [{name: np.full(len(members), np.nan) for name in _LATENCIES} for members, _ in groups]
    servers: dict[Service, list[tuple[int, int, float, float, float]]] = defaultdict(list)
    duty = jobs.busy_us / jobs.step_us
    for number, ((members, _), slowdown) in enumerate(zip(groups, slowdowns, strict=True)):
        for place, member in enumerate(members):
            service = jobs.workloads[member].service
            if service is not None:
                # Under time-slicing a request may come in the middle of another's slice.
                wait = turn_ms * float(sum(duty[m] for position, m in enumerate(members) if position != place))
                servers[service].append((number, place, jobs.step_us[member] / 1e3, slowdown[place], wait))
    for service, entries in servers.items():
        figures = np.array([entry[2:] for entry in entries])
        alone = latency(figures[:, 0], np.ones(len(figures)), service)
        shared = latency(figures[:, 0], figures[:, 1], service, figures[:, 2])
        columns = (
            alone.p50_ms, alone.p99_ms, shared.p50_ms, shared.p99_ms, shared.step_p50_ms, shared.step_p99_ms,
            shared.utilisation,
        )  # fmt: skip
        for name, values in zip(_LATENCIES, columns, strict=True):
            for (number, place, *_), value in zip(entries, values, strict=True):
                results[number][name][place] = value
    return results
