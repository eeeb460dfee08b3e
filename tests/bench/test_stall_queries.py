"""Stall shares of a million metric rows cost little more than the one statement that computes them in SQL.

Only ratios of processor times taken in turns, and sizes, are asserted; run with ``-m long -n 0``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from analysis.reference import stall_reasons
from analysis.settings import get_settings
from analysis.stalls.shares import stall_shares
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import SourceInfo, load
from analysis.store.parsed import Parsed
from tests.conftest import ROOT

pytestmark = pytest.mark.long

LAUNCHES, WORKLOADS, KERNELS, ROUNDS = 40_000, 8, 200, 7
TOTAL, ISSUED = "smsp__average_warps_active_per_issue_active.ratio", "smsp__inst_executed.sum"
OTHERS = (TOTAL, ISSUED, "DRAM Throughput", "L2 Cache Throughput", "launch__registers_per_thread", "x1", "x2", "x3")

BARE = """
    WITH launch AS (
      SELECT kernel_id, max(value) FILTER (WHERE metric = $total) AS total,
             max(value) FILTER (WHERE metric = $issued) AS issued
      FROM kernel_metric WHERE metric IN ($total, $issued) GROUP BY kernel_id),
    whole AS (
      SELECT k.profile_id, sum(l.issued * l.total) AS cycles FROM launch l JOIN kernel k USING (kernel_id) GROUP BY ALL)
    SELECT w.name AS workload, p.gpu, m.reason, 100 * sum(l.issued * m.value) / any_value(whole.cycles) AS share
    FROM kernel_metric m JOIN launch l USING (kernel_id) JOIN kernel k USING (kernel_id)
         JOIN profile p USING (profile_id)
         JOIN workload w USING (workload_id) JOIN whole ON whole.profile_id = k.profile_id
    WHERE m.family = 'per_issue_active' GROUP BY w.name, p.gpu, m.reason
"""


@pytest.fixture(scope="module")
def million_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40,000 launches of 26 metrics each."""
    rng = np.random.default_rng(7)
    reasons = [f"smsp__average_warps_issue_stalled_{r}_per_issue_active.ratio" for r in stall_reasons.available("8.0")]
    names = [*reasons, *OTHERS]
    launch = np.arange(LAUNCHES)
    kernel = pd.DataFrame(
        {
            "launch": launch,
            "workload": [f"job {i % WORKLOADS}" for i in launch],
            "gpu": "A100-40GB",
            "name": [f"void kernel_{i % KERNELS}<float, 4>(float const*, float*, int)" for i in launch],
            "short_name": [f"kernel_{i % KERNELS}" for i in launch],
            "grid": "(128, 1, 1)",
            "block": "(256, 1, 1)",
            "duration_ns": rng.uniform(1e3, 1e6, LAUNCHES),
        }
    )
    resolved = {name: stall_reasons.resolve(name) for name in names}
    metric = pd.DataFrame({"launch": np.repeat(launch, len(names)), "metric": np.tile(names, LAUNCHES)})
    metric["value"] = rng.uniform(0, 5, len(metric))
    metric["family"] = metric["metric"].map({n: r.family if r else None for n, r in resolved.items()}).astype("string")
    metric["reason"] = metric["metric"].map({n: r.reason if r else None for n, r in resolved.items()}).astype("string")
    path: Path = tmp_path_factory.mktemp("bench") / "million.duckdb"
    frames = {"kernel": kernel, "kernel_metric": metric}
    with Database(path) as database:
        load(database, Parsed(format="x", rows_read=len(metric), frames=frames), SourceInfo("own", "f", "f", 1))
    return path


@pytest.fixture
def million(million_file: Path) -> Iterator[Database]:
    """The same, open."""
    with Database(million_file) as database:
        yield database


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def test_a_million_rows_cost_at_most_three_times_the_bare_statement(million: Database) -> None:
    bound = {"total": TOTAL, "issued": ISSUED}

    def bare() -> pd.DataFrame:
        return million.query(BARE, bound)

    calls = {
        "bare": bare,
        "by workload": lambda: stall_shares(million),
        "by kernel": lambda: stall_shares(million, Filter(workloads=("job 1",)), "kernel"),
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name].append(_seconds(call))
    median = {name: float(np.median(times)) for name, times in taken.items()}
    print({name: f"{1000 * seconds:.0f} ms" for name, seconds in median.items()})
    expected = bare().set_index(["workload", "reason"])["share"]
    found = stall_shares(million).set_index(["workload", "reason"])["share"]
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index(), rtol=1e-9)
    assert median["by workload"] <= 3 * median["bare"]
    assert median["by kernel"] <= 3 * median["bare"]


@pytest.mark.parametrize("query", [{}, {"see": "Compare"}, {"level": "Launch"}], ids=["why", "compare", "launches"])
def test_the_page_sends_little_and_runs_again_quickly(
    million_file: Path, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALLSCOPE_DB", str(million_file))
    get_settings.cache_clear()
    page = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    page.run()
    for name, value in query.items():
        page.query_params[name] = value
    page.switch_page("pages/explore/stalls.py")
    page.run()
    assert not page.exception, page.exception
    times = [_seconds(page.run) for _ in range(5)]
    sent = sum(_size(element) for element in page._tree.children.values())
    print(f"{query}: sent {sent / 1e6:.2f} MB, run again in {1000 * float(np.median(times)):.0f} ms of processor time")
    st.cache_resource.clear()
    st.cache_data.clear()
    assert 10_000 < sent < 2_000_000


def _size(node: object) -> int:
    """Bytes of a block and all in it, as they go to the browser."""
    children = getattr(node, "children", None)
    if children is not None:
        return sum(_size(child) for child in children.values())
    proto = getattr(node, "proto", None)
    return int(proto.ByteSize()) if proto is not None else 0
