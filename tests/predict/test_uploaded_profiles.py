"""Two profiles that never ran together, asked of a model that was trained elsewhere: an answer, and what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.ingest.importer import import_paths
from analysis.predict.frame.counters import from_kernels
from analysis.predict.models import models
from analysis.store.database import Database
from tests.predict.conftest import known_law, make


def _stalls_only(path: Path, long_scoreboard: float) -> Path:
    """Write a profile as `ncu --csv` does where nothing but stall reasons was asked for."""
    metric = "smsp__warp_issue_stalled_{}_per_warp_active.pct"
    shares = {"long_scoreboard": long_scoreboard, "wait": 20.0, "barrier": 5.0, "selected": 10.0}
    rows = ['"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
            '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"']  # fmt: skip
    for launch in range(3):
        rows += [
            f'"{launch}","1","python","127.0.0.1","gemm","1","7","(256, 1, 1)","(64, 1, 1)","0","8.0","Command line '
            f'profiler metrics","{metric.format(reason)}","%","{share}"'
            for reason, share in shares.items()
        ]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_stall_profiles_without_counters_get_an_answer(database: Database, tmp_path: Path) -> None:
    make(database)
    card = models.train(database, "syn", "effects")
    for name, share in (("mine", 60.0), ("yours", 30.0)):
        reports = import_paths(
            database, [_stalls_only(tmp_path / f"{name}.csv", share)], workload=name, gpu="V100-32GB", dataset="own"
        )
        assert [report.status for report in reports] == ["loaded"]
    found = models.predict(database, card.model_id, "V100-32GB", ["mine", "yours"], dataset="own")
    assert [one.workload for one in found] == ["mine", "yours"]
    for one in found:
        assert one.slowdown > 0
        assert one.evidence == "stalls", "a model that goes by names is no worse for it"
        assert one.memory == "unknown"
        assert one.verdict != "share"
        assert one.extrapolating
        assert any("peak memory" in text for text in one.missing)


def test_what_is_unknown_stands_in_one_reason(database: Database, tmp_path: Path) -> None:
    make(database)
    card = models.train(database, "syn", "ridge")
    for name in ("mine", "yours"):
        import_paths(database, [_stalls_only(tmp_path / f"{name}.csv", 50.0 + len(name))], workload=name,
                     gpu="V100-32GB", dataset="own")  # fmt: skip
    found = models.predict(database, card.model_id, "V100-32GB", ["mine", "yours"], dataset="own")
    assert {one.evidence for one in found} == {"none"}, "the model reads counters, and there are none"
    assert any("white-box" in text for text in found[0].reasons)
    assert any("ncu" in text for text in found[0].missing)
    assert any("nvidia-smi" in text for text in found[0].missing)
    lacking = [text for text in found[0].reasons if "lacks" in text]
    assert len(lacking) == 2
    assert any("its own profile" in text for text in lacking)


def test_profiles_without_a_single_counter_make_no_table(database: Database, tmp_path: Path) -> None:
    import_paths(database, [_stalls_only(tmp_path / "mine.csv", 60.0)], workload="mine", gpu="V100-32GB")
    assert from_kernels(database, "own").empty
    with pytest.raises(KeyError):
        from_kernels(database, "own")["threads"]


def test_a_measurement_that_the_checks_doubt_never_says_share(database: Database) -> None:
    def fast(jobs, slot):
        return 0.6 if "alpha-b2" in (jobs[slot],) else known_law(jobs, slot)

    make(database, law=fast)
    card = models.train(database, "syn", "ridge")
    found = models.predict(database, card.model_id, "V100-32GB", ["alpha-b2", "beta-b2"])
    assert {one.evidence for one in found} == {"measured"}
    assert {one.verdict for one in found} == {"measure first"}
    assert "alpha-b2 is doubtful" in found[0].why
    assert any("measured again" in text for text in found[0].missing)
    assert not any("measured again" in text for text in found[1].missing)
