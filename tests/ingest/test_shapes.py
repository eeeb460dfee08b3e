"""Co-run tables as people have them: every shape gives the same slowdowns, and every line is accounted for."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from analysis.cli.main import app
from analysis.ingest.importer import import_file, import_paths
from analysis.ingest.preview import preview
from analysis.store.database import Database
from analysis.store.queries import coruns

#: Slowdown of the first beside the second.
TRUE = {("uno", "duo"): 1.25, ("duo", "uno"): 2.5, ("uno", "tre"): 1.5, ("tre", "uno"): 4.0, ("duo", "tre"): 2.0,
        ("tre", "duo"): 1.6}  # fmt: skip
PAIRS = [("uno", "duo"), ("uno", "tre"), ("duo", "tre")]
ALONE = {"uno": 80.0, "duo": 40.0, "tre": 10.0}


def found(database: Database) -> dict[tuple[str, str], float]:
    """Slowdowns of pairs in the database, by job and job beside."""
    members = coruns.members(database)
    out = {}
    for _, run in members.groupby("run_id"):
        names, values = run["workload"].tolist(), run["slowdown"].tolist()
        assert len(names) == 2
        for here, there in ((0, 1), (1, 0)):
            if values[here] == values[here]:
                out[(names[here], names[there])] = values[here]
    return out


def tables() -> dict[str, str]:
    """The six slowdowns in every shape."""
    times = {key: ALONE[key[0]] * slow for key, slow in TRUE.items()}
    rates = {key: ALONE[key[0]] / slow for key, slow in TRUE.items()}
    names = list(ALONE)
    lines: dict[str, list[str]] = {
        "job beside partner": ["app,neighbour,isolated_s,corun_s"]
        + [f"{a},{b},{ALONE[a]},{times[a, b]}" for a, b in TRUE],
        "throughput": ["Workload,Co-runner,Solo throughput (it/s),Shared throughput (it/s)"]
        + [f"{a},{b},{ALONE[a]},{rates[a, b]}" for a, b in TRUE],
        "no measure named": ["task,other,alone,together"] + [f"{a},{b},{ALONE[a]},{times[a, b]}" for a, b in TRUE],
        "baseline rows": ["program,partner,latency_us"]
        + [f"{a},{word},{ALONE[a]}" for a, word in zip(names, ("none", "-", ""), strict=True)]
        + [f"{a},{b},{times[a, b]}" for a, b in TRUE],
        "normalised": ["victim,aggressor,normalized_throughput"] + [f"{a},{b},{1 / TRUE[a, b]}" for a, b in TRUE],
        "percent": ["job,partner,slowdown_pct"] + [f"{a},{b},{100 * (TRUE[a, b] - 1)}" for a, b in TRUE],
        "pair rows": ["workload_1,workload_2,slowdown_1,slowdown_2"]
        + [f"{a},{b},{TRUE[a, b]},{TRUE[b, a]}" for a, b in PAIRS],
        "pair rows, times": ["modelA,modelB,soloTimeA,soloTimeB,corunTimeA,corunTimeB"]
        + [f"{a},{b},{ALONE[a]},{ALONE[b]},{times[a, b]},{times[b, a]}" for a, b in PAIRS],
        "pair rows, throughput": ["app1;app2;tput1_alone;tput2_alone;tput1_colocated;tput2_colocated"]
        + [f"{a};{b};{ALONE[a]};{ALONE[b]};{rates[a, b]};{rates[b, a]}" for a, b in PAIRS],
        "list": ["pair,slowdowns"] + [f"{a}+{b},{TRUE[a, b]}+{TRUE[b, a]}" for a, b in PAIRS],
        "listed names": ["mix,slowdown_1,slowdown_2"] + [f"{a} + {b},{TRUE[a, b]},{TRUE[b, a]}" for a, b in PAIRS],
        "numbered": ["experiment,app,time_alone_ms,time_shared_ms"]
        + [f"e{n},{a},{ALONE[a]},{times[a, b]}" for n, pair in enumerate(PAIRS) for a, b in (pair, pair[::-1])],
        "matrix": ["," + ",".join(names)]
        + [f"{a}," + ",".join("" if a == b else str(TRUE[a, b]) for b in names) for a in names],
        "matrix with times": ["job,alone_ms," + ",".join(f"with_{b}" for b in names)]
        + [f"{a},{ALONE[a]}," + ",".join("" if a == b else str(times[a, b]) for b in names) for a in names],
    }
    return {name: "\n".join(rows) + "\n" for name, rows in lines.items()}


def typed_by_hand() -> dict[str, str]:
    """The six slowdowns as people type them: units in cells, several things in a cell, drawn tables, merged headers."""
    times = {key: ALONE[key[0]] * slow for key, slow in TRUE.items()}
    lost = {key: 100 * (1 - 1 / slow) for key, slow in TRUE.items()}
    names = list(ALONE)
    lines: dict[str, list[str]] = {
        "percent in cells": ["Subject;Antagonist;Degradation"]
        + [f"{a};{b};{100 * (TRUE[a, b] - 1):.4f} %" for a, b in TRUE],
        "lost throughput": ["foreground job,background job,Throughput drop [%]"]
        + [f"{a},{b},{lost[a, b]}" for a, b in TRUE],
        "retained, percent": ["app,runs beside,relative speed (%)"] + [f"{a},{b},{100 - lost[a, b]}" for a, b in TRUE],
        "ratios with x": ["dnn,next to,slowed"] + [f"{a},{b},{TRUE[a, b]}x" for a, b in TRUE],
        "durations": ["task,with,alone,together"]
        + [f"{a},{b},0:{ALONE[a] // 60:02.0f}:{ALONE[a] % 60:04.1f},{times[a, b] // 60:.0f}m {times[a, b] % 60}s"
           for a, b in TRUE],
        "two units": ["task,partner,alone_ms,together_s"]
        + [f"{a},{b},{ALONE[a]},{times[a, b] / 1000}" for a, b in TRUE],
        "lists in brackets": ["nr,jobs,slowdowns"]
        + [f"""{n},"['{a}', '{b}']","[{TRUE[a, b]}, {TRUE[b, a]}]\"""" for n, (a, b) in enumerate(PAIRS)],
        "both in a cell": ["," + ",".join(names)]
        + [f"{a}," + ",".join(f"{TRUE[a, b]} / {TRUE[b, a]}" if (a, b) in PAIRS else "" for b in names) for a in names],
        "drawn": ["Measured in spring, by hand:", "", "| job | with | slowdown |", "|:--|:-:|--:|"]
        + [f"| **{a}** | {b} | {TRUE[a, b]} |" for a, b in TRUE],
        "scenario": ["net,condition,epoch time (s)"] + [f"{a},solo,{ALONE[a]}" for a in names]
        + [f"{a},with {b},{times[a, b]}" for a, b in TRUE],
        "mode and repetition": ["case,net,setting,rep,s/epoch"]
        + [f"{n},{a},{word},{rep},{value * (0.99 + 0.01 * rep)}" for n, pair in enumerate(PAIRS) for rep in (1,)
           for a, b in (pair, pair[::-1]) for word, value in (("dedicated", ALONE[a]), ("co-located", times[a, b]))],
        "merged header": [",,alone,,together,", "job 1,job 2,s 1,s 2,s 1,s 2"]
        + [f"{a},{b},{ALONE[a]},{ALONE[b]},{times[a, b]},{times[b, a]}" for a, b in PAIRS],
    }  # fmt: skip
    return {name: "\n".join(rows) + "\n" for name, rows in lines.items()}


@pytest.mark.parametrize("shape", [*tables(), *typed_by_hand()])
def test_every_shape_gives_the_slowdowns(database: Database, tmp_path: Path, shape: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text((tables() | typed_by_hand())[shape])
    report = import_file(database, path)
    assert report.error is None
    assert report.rows_read == report.rows_loaded + report.rows_rejected
    assert (report.rows_rejected, report.runs, report.members) == (0, 3, 6)
    assert found(database) == pytest.approx(TRUE)


@pytest.mark.parametrize(
    ("table", "by", "settings_"),
    [
        ("job,mate,alone [it/s],MPS [it/s],time slicing [it/s]\nu,v,10,8,5\nv,u,6,3,-\n", "mechanism",
         {("CUDA MPS", "u"): 1.25, ("CUDA MPS", "v"): 2.0, ("time-slicing", "u"): 2.0}),
        ("job,mate,alone T4 (s),shared T4 (s),alone A30 (s),shared A30 (s)\nu,v,10,15,4,8\nv,u,2,5,1,4\n", "gpu",
         {("T4", "u"): 1.5, ("T4", "v"): 2.5, ("A30", "u"): 2.0, ("A30", "v"): 4.0}),
        ("scheme,job,u,v\nmps,u,1.5x,1.25x\nmps,v,2x,1.6x\nplain,u,3x,2.5x\nplain,v,4x,3.5x\n", "mechanism",
         {("CUDA MPS", "u"): 1.25, ("CUDA MPS", "v"): 2.0, ("plain", "u"): 2.5, ("plain", "v"): 4.0}),
    ],
)  # fmt: skip
def test_columns_or_rows_of_several_settings(
    database: Database, tmp_path: Path, table: str, by: str, settings_: dict[tuple[str, str], float]
) -> None:
    path = tmp_path / "settings.csv"
    path.write_text(table)
    report = import_file(database, path)
    assert (report.error, report.rows_rejected) == (None, 0)
    members = coruns.members(database).dropna(subset="slowdown")
    pairs = members.groupby("run_id").filter(lambda run: run["workload"].nunique() == len(run) or len(run) == 1)
    assert {(row[by], row["workload"]): row["slowdown"] for row in pairs.to_dict("records")} == pytest.approx(settings_)
    # The proposal can be saved as it is, and reads the same.
    run, db = CliRunner(), ["--db", str(tmp_path / "m.duckdb"), "--json"]
    saved = run.invoke(
        app, ["mappings", "save", "mine", str(path), "--always", "gpu=L4" if by != "gpu" else "note=x", *db]
    )
    assert json.loads(saved.output)["runs"] == report.runs


def test_repetitions_are_runs(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text("job,mate,alone (s),trial 1 (s),trial 2 (s)\nu,v,10,15,17\nv,u,4,8,\n")
    report = import_file(database, path)
    assert (report.rows_read, report.rows_rejected, report.runs) == (2, 0, 2)
    assert sorted(coruns.members(database)["slowdown"].dropna()) == pytest.approx([1.5, 1.7, 2.0])


def test_units_in_cells_of_a_table_that_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "opaque.csv"
    path.write_text("c1,c2,c3\nq,r,30 %\nr,q,100 %\n")
    run, db = CliRunner(), ["--db", str(tmp_path / "m.duckdb"), "--json"]
    fields = ["--field", "workload=c1", "--field", "partner=c2", "--field", "slowdown=c3"]
    saved = run.invoke(app, ["mappings", "save", "mine", str(path), "--shape", "partner", *fields, *db])
    assert [row["slowdown"] for row in json.loads(saved.output)["preview"]] == pytest.approx([1.3, 2.0])


def test_semicolons_and_decimal_commas(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("job_a;job_b;gpu;slowdown_a;slowdown_b\nu;v;T4;1,35;1,070\nu;w;T4;1,125;2,5\n")
    report = import_file(database, path)
    assert (report.gpus, report.report["decimal_mark"]) == (["T4"], ",")
    assert found(database) == pytest.approx({("u", "v"): 1.35, ("v", "u"): 1.07, ("u", "w"): 1.125, ("w", "u"): 2.5})


def test_three_and_four_jobs_a_row(database: Database, tmp_path: Path) -> None:
    """Columns like those of published tables of pairs, with more jobs: none of the published formats may claim it."""
    path = tmp_path / "four.csv"
    names = [f"workload{n}" for n in range(1, 5)]
    head = [*names, *(f"w{n}throughput" for n in range(1, 5)), *(f"w{n}exclusive_throughput" for n in range(1, 5))]
    path.write_text(",".join(head) + "\na,b,c,d,10,5,4,2,20,20,20,20\na,b,c,,10,5,4,,20,20,20,\n")
    report = import_paths(database, [path], gpu="A30")[0]
    assert (report.format, report.runs, report.members, report.gpus) == ("coruns", 2, 7, ["A30"])
    assert coruns.members(database)["slowdown"].tolist() == pytest.approx([2, 4, 5, 10, 2, 4, 5])
    three = tmp_path / "three.csv"
    parts = ("model", "dataset", "batchsize", "amp", "speed")
    three.write_text(
        ",".join(f"{part}{n}" for n in (1, 2, 3) for part in parts) + "\nm,d,8,0,0.5,n,d,16,1,0.25,o,d,4,0,0.8\n"
    )
    report = import_paths(database, [three], dataset="three")[0]
    assert (report.format, report.runs, report.members, report.gpus) == ("coruns", 1, 3, ["unknown"])


def test_copies_share_their_throughput(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "copies.csv"
    path.write_text("sharing,num_instances,total_tput\nplain,1,8\nplain,4,8\nmps,2,10\n")
    report = import_file(database, path)
    assert (report.rows_read, report.rows_rejected, report.runs, report.members) == (3, 0, 2, 6)
    rows = coruns.members(database).groupby("mechanism")["slowdown"].unique()
    assert {name: list(values) for name, values in rows.items()} == {
        "time-slicing": [pytest.approx(4)], "CUDA MPS": [pytest.approx(1.6)],
    }  # fmt: skip
    assert any("equally" in text for text in report.warnings)


def test_an_unmeasured_partner_costs_nobody(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        "run_id,gpu,mechanism,workload,solo_time,corun_time,outcome\n"
        "x,T4,MPS,measured,10,15,ran\nx,T4,MPS,silent,,,ran\ny,T4,MPS,measured,10,20,\ny,T4,MPS,blank,,,\n"
    )
    report = import_file(database, path)
    # A row that says nothing at all of how it ran is still incomplete.
    assert (report.rows_rejected, report.set_aside, report.runs) == (1, {"partner_rejected": 1}, 1)
    assert found(database) == {("measured", "silent"): 1.5}


def test_a_measured_side_keeps_its_value(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "one-side.csv"
    path.write_text("job,co_runner,alone_ms,shared_ms\na,b,10,15\nc,c,4,8\n")
    report = import_file(database, path)
    assert (report.runs, report.members) == (2, 4)
    assert found(database) == {("a", "b"): 1.5, ("c", "c"): 2.0}
    assert any("not every job was measured" in text for text in report.warnings)


def test_a_column_of_runs_that_is_none_is_told(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "constant.csv"
    rows = "".join(f"1,T4,{name},{value}\n" for value in range(2, 14) for name in "abc")
    path.write_text("run_id,gpu,workload,slowdown\n" + rows)
    report = import_file(database, path)
    assert any("'run_id'" in text and "36 members of 3 jobs" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("job,partner,alone_ms,shared_ms\na,b,10,15\nb,a,10,broken\nb,,5,\na,c,10,20\n", "shared_ms"),
        ("job_a,job_b,slowdown_a,slowdown_b\na,b,1.5,broken\na,c,1.5,2\n,,,\nd,,,\n", None),
        ("s,a,b,c\na,1,2,3\nb,1,2,broken\nc,1,1,1\n", "c"),
        ("mode,n_procs,aggregate_throughput\nx,1,2\nx,2,broken\nx,0,1\nx,2,2\n", "aggregate_throughput"),
    ],
)
def test_a_fault_costs_its_row(database: Database, tmp_path: Path, table: str, column: str | None) -> None:
    path = tmp_path / "faults.csv"
    path.write_text(table)
    report = import_file(database, path)
    assert report.error is None
    assert report.rows_rejected >= 1
    assert report.rows_read == report.rows_loaded + report.rows_rejected
    assert sum(report.set_aside.values()) <= report.rows_loaded
    if column is not None:
        assert column in set(database.query('SELECT "column" FROM rejected_row')["column"])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), shape=st.sampled_from(sorted(tables())))
def test_order_of_columns_and_rows_is_free(tmp_path_factory: pytest.TempPathFactory, seed: int, shape: str) -> None:
    head, *rows = (line.split(";" if ";" in tables()[shape] else ",") for line in tables()[shape].splitlines())
    chance = random.Random(seed)
    chance.shuffle(rows)
    order = list(range(1, len(head))) if "matrix" in shape else list(range(len(head)))
    chance.shuffle(order)
    order = [0, *order] if "matrix" in shape else order
    path = tmp_path_factory.mktemp("s") / "t.csv"
    path.write_text("\n".join("\t".join(row[at] for at in order) for row in (head, *rows)) + "\n")
    with Database(path.with_suffix(".duckdb")) as database:
        assert import_file(database, path).error is None
        assert found(database) == pytest.approx(TRUE)


def test_what_tells_nothing_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "opaque.csv"
    path.write_text("c1,c2,c3\nq,r,3\nr,q,4\n")
    seen = preview(path)
    assert seen.error is not None
    assert seen.columns == ["c1", "c2", "c3"]
    run = CliRunner()
    db = ["--db", str(tmp_path / "m.duckdb"), "--json"]
    assert run.invoke(app, ["mappings", "propose", str(path), *db]).exit_code == 1
    fields = ["--field", "workload=c1", "--field", "partner=c2", "--field", "slowdown=c3"]
    saved = run.invoke(app, ["mappings", "save", "mine", str(path), "--shape", "partner", *fields, *db])
    document = json.loads(saved.output)
    assert (document["runs"], document["mapping"]["shape"]) == (1, "partner")
    loaded = json.loads(run.invoke(app, ["import", str(path), *db]).output)[0]
    assert (loaded["runs"], loaded["members"], loaded["report"]["mapping"]) == (1, 2, "mine")


def test_a_proposal_is_shown_and_can_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(tables()["pair rows"])
    seen = preview(path)
    assert seen.error is None
    assert seen.columns == ["workload_1", "workload_2", "slowdown_1", "slowdown_2"]
    assert seen.asks_gpu
    told = CliRunner().invoke(app, ["mappings", "propose", str(path), "--db", str(tmp_path / "p.duckdb"), "--json"])
    document = json.loads(told.output)
    assert (document["mapping"]["shape"], document["runs"]) == ("set", 3)
    assert document["mapping"]["columns"]["slowdown.2"] == "slowdown_2"
