"""Gavel's two campaigns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opening import load_into, opened, written

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.ingest.formats.published.gavel import GavelOracle, GavelSimulation, read_cells
from analysis.store.database import Database
from analysis.store.queries import coruns, sources

_A, _B = "ResNet-18 (batch size 16)", "CycleGAN"


def _oracle(**changes: object) -> dict[str, object]:
    return {
        "p100": {
            _A: {"null": 10.0, _A: [5.0, 4.0], _B: [10.0, 2.0]},
            _B: {"null": 4.0, _A: [2.0, 10.0], _B: [0.0, 0.0]},
            **changes,
        }
    }


def _scaled(name: str, scale: int = 1) -> str:
    return f"('{name}', {scale})"


def test_a_small_oracle(database: Database, tmp_path: Path) -> None:
    file = written(tmp_path, "oracle.json", json.dumps(_oracle(), indent=4))
    assert not GavelSimulation().sniff(file)
    parsed = load_into(database, GavelOracle(), file, Hints(dataset="gavel-oracle"))
    assert (parsed.rows_read, parsed.rows_loaded, dict(parsed.set_aside)) == (6, 6, {"mirrored_cell": 1})
    members = coruns.members(database)
    assert members["run_outcome"].tolist() == ["ran", "ran", "ran", "ran", "did_not_run", "did_not_run"]
    assert members["slowdown"].fillna(-1).tolist() == [2.0, 2.5, 1.0, 2.0, -1, -1]
    assert [list(flags) for flags in members["flags"]] == [[], [], ["clipped"], [], [], []]
    assert members["corun_value"].isna().sum() == 2
    assert set(members["gpu"]) == {"P100"}
    assert set(members["phase"]) == {"training"}
    assert members["family"].tolist()[:3] == ["ResNet-18", "ResNet-18", "ResNet-18"]
    solos = coruns.solos(database)
    assert solos[["workload", "value", "unit"]].values.tolist() == [[_B, 4.0, "it/s"], [_A, 10.0, "it/s"]]
    # The line of a run is that of its cell.
    lines = file.path.read_text().splitlines()
    assert f'"{_B}": [' in lines[members["line"].iloc[2] - 1]


def test_a_small_simulation(database: Database, tmp_path: Path) -> None:
    one, two = _scaled(_A), _scaled(_A, 2)
    content = {
        "v100": {one: {"null": 10.0, one: [4.0, 4.0]}, two: {"null": 0.0, two: [3.0, 3.0]}},
        "v100_unconsolidated": {one: {"null": 10.0}},
    }
    file = written(tmp_path, "sim.json", json.dumps(content))
    assert not GavelOracle().sniff(file)
    parsed = load_into(database, GavelSimulation(), file)
    assert (parsed.rows_read, parsed.rows_rejected) == (5, 0)
    assert dict(parsed.set_aside) == {"scale_above_1": 2, "unconsolidated": 1}
    members = coruns.members(database)
    assert [list(flags) for flags in members["flags"]] == [["averaged"], ["averaged"]]
    assert members["workload"].tolist() == [_A, _A]


def test_wrong_cells_are_counted_one_by_one(database: Database, tmp_path: Path) -> None:
    content = _oracle(C={"null": 0, _A: [1.0], _B: [1, "x"]}, D={"null": -1, _A: [1.0, float("nan")], _B: 3})
    parsed = load_into(database, GavelOracle(), written(tmp_path, "oracle.json", json.dumps(content)))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (12, 6, 6)
    rejected = sources.rejected_rows(database, 1)
    assert set(rejected["line"]) == {1}
    assert f"p100 > C > {_A}" in set(rejected["column"])


def test_repeated_keys_and_contradictory_mirrors_are_seen(database: Database, tmp_path: Path) -> None:
    text = json.dumps(_oracle(), indent=1).replace("10.0\n   ]", "9.0\n   ]")
    text = text.replace(f'"{_A}": {{\n   "null": 10.0,', f'"{_A}": {{\n   "null": 10.0,\n   "null": 11.0,')
    parsed = load_into(database, GavelOracle(), written(tmp_path, "oracle.json", text))
    assert (parsed.rows_read, parsed.rows_rejected, dict(parsed.set_aside)) == (7, 1, {})
    assert parsed.rejected["reason"].tolist() == ["stands a second time under the same keys"]
    assert any("don't agree with their mirror" in warning for warning in parsed.warnings)
    assert len(coruns.members(database)) == 8


def test_co_runs_without_a_solo_have_no_slowdown(database: Database, tmp_path: Path) -> None:
    content = {"my card": {_A: {"null": 10.0, _B: [5.0, 1.0]}}}
    parsed = load_into(database, GavelOracle(), written(tmp_path, "oracle.json", json.dumps(content)))
    assert parsed.warnings == (f"{_B} has no throughput of its own, so its co-runs have no slowdown",)
    members = coruns.members(database)
    assert members["slowdown"].fillna(-1).tolist() == [2.0, -1]
    assert set(members["gpu"]) == {"my card"}


@pytest.mark.parametrize(
    "text",
    [
        '{"p100": {"a": {"null": 1.0, "b": [1.0,',
        '{"p100": {"a": {"null": 1.0}}} trailing',
        '{"p100": {"a": {"null": 1.0}, 3: {}}}',
        '{"p100": {"a": {"null": 1.0}, "b": 4}}',
        '{"p100": {"a": {"null": -1.0}}}',
    ],
)
def test_refusals_name_the_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputRefusedError) as caught:
        GavelOracle().parse(written(tmp_path, "oracle.json", text), Hints())
    assert "oracle.json" in caught.value.sentence


_keys = st.dictionaries(
    st.text(max_size=8),
    st.dictionaries(st.text(max_size=8), st.lists(st.floats(allow_nan=False), max_size=3), max_size=4),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=8), _keys, max_size=3), st.sampled_from([None, 0, 2]))
def test_the_walk_reads_what_json_reads(
    tmp_path_factory: pytest.TempPathFactory, content: dict, indent: int | None
) -> None:
    file = written(tmp_path_factory.mktemp("walk"), "x.json", json.dumps(content, indent=indent))
    cells = read_cells(file)
    again: dict = {}
    for cell in cells:
        again.setdefault(cell.gpu, {}).setdefault(cell.job, {})[cell.partner] = cell.value
    assert again == {g: kept for g, jobs in content.items() if (kept := {j: p for j, p in jobs.items() if p})}
    lines = file.path.read_text().splitlines() or [""]
    assert all(json.dumps(cell.partner) in lines[cell.line - 1] for cell in cells)


_EXPECTED = {
    "gavel_oracle_throughputs.json": (GavelOracle, {"K80": 53, "P100": 14, "V100": 23}, {"P100": 126}),
    "gavel_simulation_throughputs.json": (GavelSimulation, {"K80": 45, "P100": 11, "V100": 21}, {"V100": 83}),
}


@pytest.mark.parametrize("name", sorted(_EXPECTED))
def test_the_public_campaigns(database: Database, datasets: Path, name: str) -> None:
    form, did_not_run, clipped = _EXPECTED[name]
    raw = json.loads((datasets / name).read_text())
    cells = sum(len(partners) for jobs in raw.values() for partners in jobs.values())
    parsed = load_into(database, form(), opened(datasets / name))
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected, parsed.warnings) == (cells, cells, 0, ())
    members = coruns.members(database)
    assert members.groupby("gpu")["workload"].nunique().to_dict() == {"K80": 26, "P100": 26, "V100": 26}
    assert members.groupby("gpu")["run_id"].nunique().to_dict() == {"K80": 351, "P100": 351, "V100": 351}
    failed = members[members["run_outcome"] == "did_not_run"]
    assert failed.groupby("gpu")["run_id"].nunique().to_dict() == did_not_run
    flagged = members[[("clipped" in flags) for flags in members["flags"]]]
    assert flagged.groupby("gpu").size().to_dict() == clipped
    assert (flagged["slowdown"] == 1).all()
    averaged = members[[("averaged" in flags) for flags in members["flags"]]]
    assert averaged.empty == (form is GavelOracle)
    assert members["family"].nunique() == 7
    assert len(coruns.solos(database)) == 78
    assert sum(parsed.set_aside.values()) == cells - 3 * 351 - 78
    simulation = form is GavelSimulation
    key = _scaled if simulation else str
    for row in members[members["slot"] == 0].sample(20, random_state=7).itertuples():
        other = members[(members["run_id"] == row.run_id) & (members["slot"] == 1)].iloc[0]
        jobs = raw[row.gpu.lower()]
        shared = jobs[key(row.workload)][key(other["workload"])]
        alone = jobs[key(row.workload)]["null"], jobs[key(other["workload"])]["null"]
        if shared == [0, 0]:
            assert row.outcome == "did_not_run"
            continue
        assert (row.slowdown, other["slowdown"]) == (alone[0] / shared[0], alone[1] / shared[1])


def test_the_two_campaigns_are_told_apart(datasets: Path) -> None:
    for name, (form, _, _) in _EXPECTED.items():
        file = opened(datasets / name)
        assert [found().sniff(file) for found in (GavelOracle, GavelSimulation)] == [
            form is GavelOracle,
            form is GavelSimulation,
        ]
