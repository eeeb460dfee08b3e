"""The questions of a collocation study, answered from a table of a few runs: by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.ingest.importer import import_paths
from analysis.interference.collocation import aggregate_memory, mps_or_mig, serial_gain, smallest_profiles
from analysis.interference.mechanisms import compare
from analysis.reference import isolation, mig
from analysis.store.database import Database

HEADER = (
    "run_id,gpu,mechanism,workload,unit,solo_time,corun_time,peak_memory_mib,memory_kind,mig_profile,"
    "thread_percentage,memory_cap_mib,outcome"
)
ROWS = """1,A100-40GB,CUDA MPS,long,s,60,90,12000,nvidia-smi,,,,ran
1,A100-40GB,CUDA MPS,short,s,40,50,4000,nvidia-smi,,,,ran
2,A100-40GB,MIG,long,s,60,120,12000,nvidia-smi,4g.20gb,,,ran
2,A100-40GB,MIG,short,s,40,80,4000,nvidia-smi,3g.20gb,,,ran
3,A100-40GB,CUDA MPS,long,s,60,120,12000,nvidia-smi,,50,20480,ran
3,A100-40GB,CUDA MPS,short,s,40,70,4000,nvidia-smi,,50,20480,ran
4,A100-40GB,CUDA MPS,huge,s,,,39000,nvidia-smi,,,,did_not_run
4,A100-40GB,CUDA MPS,short,s,,,4000,nvidia-smi,,,,did_not_run
5,A100-40GB,MIG,huge,s,60,90,39000,nvidia-smi,7g.40gb,,,ran
5,A100-40GB,MIG,short,s,40,50,4000,nvidia-smi,1g.5gb,,,ran
"""


@pytest.fixture
def runs(database: Database, tmp_path: Path) -> pd.DataFrame:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}\n{ROWS}")
    report = import_paths(database, [path])[0]
    assert report.status == "loaded", report.error
    return compare(database, "own")


def test_caps_and_slices_are_settings(runs: pd.DataFrame) -> None:
    assert set(runs["setting"]) == {
        "", "4g.20gb / 3g.20gb", "50 %, 20,480 MiB / 50 %, 20,480 MiB", "7g.40gb / 1g.5gb",
    }  # fmt: skip
    assert runs["jain"].max() <= 1


def test_mps_or_mig(runs: pd.DataFrame) -> None:
    table = mps_or_mig(runs).set_index("jobs")
    both = table.loc[[("long", "short")]].iloc[0]
    assert (both["better"], both["mps"]) == ("MPS", "CUDA MPS")
    assert (both["mps_stp"], both["mig_stp"]) == pytest.approx((1 / 1.5 + 1 / 1.25, 1.0))
    other = table.loc[[("huge", "short")]].iloc[0]
    assert (other["better"], other["mps"]) == ("MIG", "did not run")


def test_memory_and_profiles(database: Database, runs: pd.DataFrame) -> None:
    memory = aggregate_memory(database, "own", runs).set_index("jobs")["memory"].to_dict()
    assert memory == {("long", "short"): "fits", ("huge", "short"): "does_not_fit"}
    table = smallest_profiles(database, "own", "A100-40GB").set_index("workload")
    assert table["profile_A100-40GB"].to_dict() == {"huge": "7g.40gb", "long": "3g.20gb", "short": "1g.5gb"}
    assert table["replicas"].to_dict() == {"huge": 1, "long": 3, "short": 10}
    assert table.loc["short", "measured"] == "1g.5gb: 1.25 x, 3g.20gb: 2.00 x"


def test_gain_over_taking_turns_counts_the_lengths(database: Database, runs: pd.DataFrame) -> None:
    gain = serial_gain(database, "own", runs).set_index("run_id")
    first = gain[(gain["mechanism"] == "CUDA MPS") & (gain["setting"] == "")].iloc[0]
    # 40 s at S 1.25 ends after 50; the other has done 50 / 1.5 of its 60 and goes on alone.
    assert first["gain"] == pytest.approx(100 / (50 + 60 - 50 / 1.5))
    assert first["basis"] == "these lengths"


def test_what_is_not_isolated_has_a_source_each() -> None:
    table = isolation.load()
    assert table.notna().all().all()
    mps = table.set_index("mechanism").loc["CUDA MPS"]
    assert "ends every client" in mps["faults"]
    told = isolation.of(["MIG", "something new"])
    assert told["faults"].tolist()[1] == "Not known"


def test_a_family_has_the_profiles_of_each_size() -> None:
    assert set(mig.profiles("A100")) == {"A100-40GB", "A100-80GB"}
    assert mig.profiles("V100-32GB") == {}
