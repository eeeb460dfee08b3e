"""KACE's pairs: two jobs under CUDA MPS on a V100 with 32 GB, with the solo counters of both in every row."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.mechanisms import MPS
from analysis.ingest.formats.published.kace_columns import (  # fmt: skip
    COUNTERS,
    GPU,
    MIB_PER_GB,
    THROUGHPUT_UNIT,
    UTILISATION,
    read_features,
)
from analysis.ingest.formats.shared.corun_frames import (  # fmt: skip
    DID_NOT_RUN,
    RAN,
    contradictions,
    one_each,
    run_frame,
    workload_frame,
)
from analysis.ingest.text.delimited import header_of, read_sheet
from analysis.store.parsed import Parsed

_SIDES = (1, 2)
_NEEDED = frozenset(name for i in _SIDES for name in (f"workload{i}", f"w{i}throughput", f"w{i}exclusive_throughput"))


class KacePairs:
    """Reads ``kace_pairs.csv``: slowdown = exclusive / shared throughput."""

    name = "kace-pairs"
    title = "KACE co-run pairs with solo counters (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has both workloads with their shared and exclusive throughput."""
        return set(header_of(opened)[0]) >= _NEEDED

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the pairs, the solo values and the solo counters.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        sides, features = [], []
        for i in _SIDES:
            workload = sheet.cells[f"workload{i}"]
            sheet.reject(sheet.cells.index[workload == ""], f"workload{i}", "is empty")
            sides.append(
                pd.DataFrame(
                    {
                        "slot": i - 1,
                        "workload": workload,
                        "solo_value": sheet.numbers(f"w{i}exclusive_throughput", above=0.0),
                        "corun_value": sheet.numbers(f"w{i}throughput", least=0.0),
                    }
                )
            )
            counters = {f"w{i}_{name}": name for name in COUNTERS} | {f"w{i}{name}": name for name in UTILISATION}
            features.append(read_features(sheet, workload, counters, {**COUNTERS, **UTILISATION}))
        good = sheet.good().index
        member = pd.concat(sides).loc[lambda rows: rows.index.isin(good)].sort_index(kind="stable")
        feature = pd.concat(features).loc[lambda rows: rows.index.isin(good)]
        # A throughput of zero says that the job did not run: it has no slowdown.
        ran = member["corun_value"] > 0
        member = member.assign(
            outcome=ran.map({True: RAN, False: DID_NOT_RUN}),
            measure="throughput",
            unit=THROUGHPUT_UNIT,
            corun_value=member["corun_value"].where(ran),
            slowdown=member["solo_value"] / member["corun_value"].where(ran),
            thread_percentage=100.0,
        )
        run, member = run_frame(member, gpu=gpu, mechanism=MPS)
        values = member.rename(columns={"solo_value": "value"})
        memory = feature[feature["name"] == "memcap"]
        solo = one_each(values, ["workload", "measure", "unit"], "value").assign(gpu=gpu)
        peak = one_each(memory, ["workload"], "value").set_index("workload")["value"] * MIB_PER_GB
        solo["peak_memory_mib"] = solo["workload"].map(peak)
        solo["memory_kind"] = solo["peak_memory_mib"].notna().map({True: "nvidia-smi", False: None})
        warnings = tuple(
            f"{name} has more than one {what} in this file; the median is used"
            for what, frame, keys in (
                ("exclusive throughput", values, ["workload"]),
                ("value of a counter", feature, ["workload", "name"]),
            )
            for name in contradictions(frame, keys, "value")
        )
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(member["workload"]),
                "run": run,
                "member": member,
                "solo": solo,
                "feature": one_each(feature, ["workload", "name", "unit"], "value").assign(gpu=gpu),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu, "mechanism": MPS},
            warnings=warnings,
        )
