"""What the commands about stalls say where lists are long and where only rule texts name a reason."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.cli import app as command

HEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]  # fmt: skip
RULE = ["Rule Name", "Rule Type", "Rule Description"]
PROSE = (
    "On average, each warp of this kernel spends 4.2 cycles being stalled waiting for a scoreboard dependency on a "
    "L1TEX (local, global, surface, texture) operation. This represents about 31.8% of the total average of 13.3 "
    "cycles between issuing two instructions."
)


def _written(path: Path, head: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([head, *rows])
    return path


def _rows(kernel: str, number: int, metric: str, value: str, unit: str = "%") -> list[str]:
    place = ["1", "app", "h", kernel, "1", "7", "(64, 1, 1)", "(8, 1, 1)", "0", "8.0"]
    return [str(number), *place, "Command line profiler metrics", metric, unit, value]


def _stalls(path: Path, prefix: str, kernels: int) -> Path:
    name = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
    rows = [
        _rows(f"{prefix}{n}(int)", n, name.format(reason), value)
        for n in range(kernels)
        for reason, value in (("wait", "60"), ("selected", "40"))
    ]
    return _written(path, HEAD, rows)


@pytest.fixture
def only_rules(tmp_path: Path) -> Path:
    metric = [*_rows("slow(int)", 0, "Duration", "12", "us"), "", "", ""]
    rule = [*_rows("slow(int)", 0, "", "", "")[:11], "WarpStateStats", "", "", "", "CPIStall", "INF", PROSE]
    return _written(tmp_path / "rules.csv", HEAD + RULE, [metric, rule])


def test_long_lists_say_how_many_more_there_are(tmp_path: Path) -> None:
    files = [_stalls(tmp_path / f"{prefix}.csv", prefix, 9) for prefix in "ab"]
    result = CliRunner().invoke(command, ["compare", *map(str, files)])
    assert result.exit_code == 0, result.output
    assert "18 kernels" in result.output
    assert "and 6 more; --json has all." in result.output
    document = json.loads(CliRunner().invoke(command, ["compare", *map(str, files), "--json"]).stdout)
    assert len(document["unmatched"]) == 18


def test_rule_texts_stand_in_marked_with_the_command_for_the_rest(tmp_path: Path, only_rules: Path) -> None:
    db = ["--db", str(tmp_path / "own.duckdb")]
    run = CliRunner()
    assert run.invoke(command, ["import", "--workload", "W", str(only_rules), *db]).exit_code == 0
    shown = run.invoke(command, ["stalls", "--workload", "W", *db])
    assert shown.exit_code == 0, shown.output
    for text in ("By rule text only", "long_scoreboard", "31.8", "ncu --csv"):
        assert text in shown.output
    (row,) = json.loads(run.invoke(command, ["stalls", "--workload", "W", "--json", *db]).stdout)
    assert (row["reason"], row["share"], row["reason_from"]) == ("long_scoreboard", 31.8, "rule text only")
    assert row["command"].startswith("ncu ")
    assert row["cycles"] is None
    files = [str(only_rules), str(_stalls(tmp_path / "a.csv", "a", 1))]
    compared = run.invoke(command, ["compare", *files])
    assert compared.exit_code == 0, compared.output
    for text in ("By rule text only", "long scoreboard", "31.8 %", "ncu --csv"):
        assert text in compared.output
