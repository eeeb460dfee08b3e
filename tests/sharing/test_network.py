"""Laws of the queueing network, on networks that hypothesis draws."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from analysis.sharing.network import solve
from tests.sharing.exact import solve_exact

STATIONS = 7


@st.composite
def networks(draw: st.DrawFn, classes: int | None = None, people: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Populations, demands and delays; every class visits the first station."""
    count = draw(st.integers(1, 3)) if classes is None else classes
    population = draw(hnp.arrays(float, count, elements=st.integers(1, people).map(float)))
    demand = draw(hnp.arrays(float, (count, STATIONS), elements=st.floats(0, 8).map(lambda x: 0.0 if x < 1 else x)))
    demand[:, 0] = np.maximum(demand[:, 0], 0.5)
    delay = draw(hnp.arrays(float, count, elements=st.floats(0, 50)))
    return population, demand, delay


def throughput(population: np.ndarray, demand: np.ndarray, delay: np.ndarray, **options: object) -> np.ndarray:
    return solve(population[None], demand[None], delay[None], **options).throughput[0]  # type: ignore[arg-type]


@given(networks(people=4))
@settings(max_examples=80, deadline=None)
def test_within_8_percent_of_exact(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    exact = solve_exact(tuple(int(n) for n in population), demand, delay)
    assert throughput(population, demand, delay) == pytest.approx(exact, rel=0.08)


def test_the_correction_is_what_brings_it_there() -> None:
    # Two lone customers at one station with some delay: plain Bard-Schweitzer makes each queue behind a whole other.
    population, demand, delay = np.array([1.0, 1.0, 1.0]), np.ones((3, 1)), np.full(3, 1.0)
    exact = solve_exact((1, 1, 1), demand, delay)
    plain = throughput(population, demand, delay, corrected=False)
    corrected = throughput(population, demand, delay)
    assert np.abs(corrected / exact - 1).max() < 0.25 * np.abs(plain / exact - 1).max()


def test_one_class_at_one_station_is_exact_in_closed_form() -> None:
    # Machine repairman with no delay: the station is always busy.
    assert throughput(np.array([5.0]), np.array([[2.0]]), np.array([0.0])) == pytest.approx([0.5], rel=1e-4)


@given(networks())
@settings(max_examples=80, deadline=None)
def test_no_station_is_used_beyond_its_time(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    used = (throughput(population, demand, delay)[:, None] * demand).sum(axis=0)
    assert used.max() <= 1 + 1e-3


@given(networks())
@settings(max_examples=50, deadline=None)
def test_cycles_add_up_to_the_customers(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    solution = solve(population[None], demand[None], delay[None])
    spent = solution.throughput * (delay + solution.residence.sum(axis=2))
    assert spent[0] == pytest.approx(population, rel=1e-6)
    assert solution.queue().sum() + (solution.throughput * delay).sum() == pytest.approx(population.sum(), rel=1e-6)
    assert np.all(solution.residence >= demand - 1e-9)


@given(networks(classes=2))
@settings(max_examples=50, deadline=None)
def test_classes_that_share_no_station_do_not_meet(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    apart = np.zeros((2, 2 * STATIONS))
    apart[0, :STATIONS], apart[1, STATIONS:] = demand
    together = throughput(population, apart, delay)
    alone = [throughput(population[[i]], apart[[i]], delay[[i]])[0] for i in range(2)]
    assert together == pytest.approx(alone, rel=1e-3)


@given(networks(classes=2))
@settings(max_examples=50, deadline=None)
def test_a_coupling_of_zero_separates_the_classes(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    coupling = np.broadcast_to(np.eye(2)[:, :, None], (2, 2, STATIONS))
    together = throughput(population, demand, delay, coupling=coupling[None].copy())
    alone = [throughput(population[[i]], demand[[i]], delay[[i]])[0] for i in range(2)]
    assert together == pytest.approx(alone, rel=1e-3)


@given(networks(classes=2))
@settings(max_examples=50, deadline=None)
def test_company_never_speeds_up(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    together = throughput(population, demand, delay, corrected=False)
    alone = [throughput(population[[i]], demand[[i]], delay[[i]], corrected=False)[0] for i in range(2)]
    assert np.all(together <= np.array(alone) * (1 + 1e-3))


@given(networks(classes=3))
@settings(max_examples=50, deadline=None)
def test_order_of_the_classes_does_not_matter(network: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    population, demand, delay = network
    order = [2, 0, 1]
    turned = throughput(population[order], demand[order], delay[order])
    assert turned == pytest.approx(throughput(population, demand, delay)[order], rel=1e-4)


@given(st.integers(2, 5), st.integers(8, 16), st.floats(0, 5))
@settings(max_examples=40, deadline=None)
def test_k_equal_classes_at_a_full_station_share_it(k: int, people: int, delay: float) -> None:
    demand = np.zeros((k, STATIONS))
    demand[:, 6], demand[:, 0] = 20.0, 1.0
    alone = throughput(np.array([float(people)]), demand[:1], np.array([delay]))[0]
    together = throughput(np.full(k, float(people)), demand, np.full(k, delay))
    assert alone / together == pytest.approx(np.full(k, float(k)), rel=0.01)


def test_a_customer_that_is_not_there_changes_nothing() -> None:
    demand, delay = np.array([[1.0, 3.0], [2.0, 1.0]]), np.array([10.0, 5.0])
    with_ghost = throughput(np.array([6.0, 0.0]), demand, delay)
    assert with_ghost[1] == 0
    assert with_ghost[0] == pytest.approx(throughput(np.array([6.0]), demand[:1], delay[:1])[0], rel=1e-6)


def test_a_batch_is_the_same_as_one_at_a_time_and_faster() -> None:
    random = np.random.default_rng(3)
    population, delay = random.uniform(2, 16, (400, 2)), random.uniform(0, 60, (400, 2))
    demand = random.exponential(2, (400, 2, STATIONS))
    begin = time.perf_counter()
    batch = solve(population, demand, delay).throughput
    middle = time.perf_counter()
    single = np.array([throughput(*network) for network in zip(population, demand, delay, strict=True)])
    end = time.perf_counter()
    assert batch == pytest.approx(single, rel=1e-4)
    assert middle - begin < end - middle
