"""Keeps the answers of a database as JSON, and compares those of later code with them, value by value.

What is fast must say what the slow code said. Run the old code first, the new one afterwards::

    python -m tests.bench.answers keep DATABASE ANSWERS.json
    python -m tests.bench.answers compare DATABASE ANSWERS.json

Every cell of every matrix, every partner, set, check with its rows, baseline and count is in it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import StallScopeError
from analysis.interference import checks, joining, matrix, memory, partners, ran, sets
from analysis.interference.rules import baselines
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.queries import coruns, repeats, sources

#: Two numbers that differ by less are the same: the order of a sum may change.
TOLERANCE = 1e-9


def plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(one) for one in value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None if value is pd.NaT or value is pd.NA else str(value)


def questions(database: Database) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of every question and what answers it."""
    measured = coruns.gpus_and_mechanisms(database)
    yield "gpus and mechanisms", lambda: measured
    for name in sources.datasets(database)["name"].astype(str):
        yield f"{name}: counts", lambda name=name: sources.counts(database, name)
        yield f"{name}: grid", lambda name=name: sources.grid(database, name)
        yield f"{name}: checks", lambda name=name: _checks(database, name)
        yield f"{name}: baselines", lambda name=name: _sorted(baselines.minimum_slowdowns(database, name))
        yield f"{name}: repeated runs", lambda name=name: repeats.repeated_runs(database, name)
        yield f"{name}: workloads", lambda name=name: sources.workloads(database, Filter(datasets=(name,)))
        for place in measured[measured["dataset"] == name].to_dict("records"):
            where = (name, str(place["gpu"]), str(place["mechanism"]))
            for title, answer in _of_place(database, *where):
                yield f"{' | '.join(where)}: {title}", answer
    yield "all: checks", lambda: _checks(database, None)


def _of_place(database: Database, name: str, gpu: str, mechanism: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    where = (database, name, gpu, mechanism)
    jobs = matrix.slowdown_matrix(*where).workloads
    yield "matrix", lambda: _matrix(matrix.slowdown_matrix(*where))
    yield "matrix without flagged", lambda: _matrix(matrix.slowdown_matrix(*where, include_flagged=False))
    yield "sensitivity", lambda: partners.sensitivity_and_pressure(matrix.slowdown_matrix(*where))
    yield "partners", lambda: partners.safe_partners(*where, limit=1.2)
    yield "partners, 1.5", lambda: partners.safe_partners(*where, limit=1.5)
    yield "never meet", lambda: partners.never_meet(partners.safe_partners(*where, limit=1.2))
    for job in jobs[:3]:
        yield f"partners of {job}", lambda job=job: partners.safe_partners(*where, limit=1.3, workload=job)
    if len(jobs) > 1:
        yield "joining", lambda: joining.joining(*where, jobs[:2], limit=1.5)
    yield "sets", lambda: sets.measured_sets(*where)
    yield "composition", lambda: sets.composition(matrix.slowdown_matrix(*where), sets.measured_sets(*where))
    yield "peaks", lambda: _sorted(memory.peaks(database, name, gpu).reset_index())
    yield "ran", lambda: _ran(ran.ran_sets(database, (name,), gpu, mechanism))


def _matrix(found: matrix.SlowdownMatrix) -> dict[str, Any]:
    return {name: value for name, value in found.__dict__.items() if name != "families"} | {
        "families": found.families,
        "document": found.to_json(),
    }


def _ran(found: ran.RanSets) -> dict[str, Any]:
    return {
        "flagged": found.flagged,
        "sets": {
            repr(key): {
                "ran": one.ran, "failed": one.failed, "worst": one.worst, "doubtful": one.doubtful,
                "simulated": one.simulated, "slowdowns": {repr(client): s for client, s in one.slowdowns.items()},
            }
            for key, one in sorted(found.sets.items())
        },
    }  # fmt: skip


def _checks(database: Database, name: str | None) -> list[Any]:
    return [{**one.to_dict(), "rows": one.rows} for one in checks.run_checks(database, name)]


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(list(table.columns), kind="stable", ignore_index=True)


def answers(database: Database) -> dict[str, Any]:
    """Return every answer; one that is refused as its sentence."""
    found = {}
    for name, ask in questions(database):
        try:
            found[name] = plain(ask())
        except StallScopeError as error:
            found[name] = f"refused: {error.sentence}"
    return found


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield where two answers differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in old or key not in new:
                yield f"{path}/{key}: only in the {'new' if key in new else 'old'}"
            else:
                yield from differences(old[key], new[key], f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} and then {len(new)} entries"
        for place, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, other, f"{path}/{place}")
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if bool(old) != bool(new) or abs(old - new) > TOLERANCE * max(abs(old), abs(new)):
            yield f"{path}: {old!r}, now {new!r}"
    elif old != new:
        yield f"{path}: {old!r}, now {new!r}"


def main(action: str, database: str, file: str) -> int:
    """Keep or compare; return how many answers differ."""
    with Database(Path(database)) as opened:
        found = answers(opened)
    if action == "keep":
        Path(file).write_text(json.dumps(found), encoding="utf-8")
        print(f"{len(found)} answers kept")
        return 0
    kept = json.loads(Path(file).read_text(encoding="utf-8"))
    bad = 0
    for name in sorted({*kept, *found}):
        apart = list(differences(kept.get(name), json.loads(json.dumps(found.get(name)))))
        bad += bool(apart)
        for line in apart[:5]:
            print(f"{name}{line}")
        if len(apart) > 5:
            print(f"{name}: {len(apart) - 5} more")
    print(f"{len(kept)} answers kept, {bad} differ")
    return bad


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:4]), 1))
