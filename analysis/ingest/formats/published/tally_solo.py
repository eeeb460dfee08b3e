"""Tally's jobs alone: memory, utilisation, and the mean latency of inference, on an A100."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.published.tally_columns import GPU
from analysis.ingest.formats.shared.corun_frames import workload_frame
from analysis.ingest.text.delimited import header_of, read_sheet
from analysis.store.parsed import Parsed

#: Name in the file -> (feature, unit). The last one is the job's speed under Tally with nobody beside it.
_FEATURES = {
    "gpu_util": ("gpu_util", "%"),
    "mem_util": ("mem_util", "%"),
    "tally_naive_throughput": ("tally_naive_throughput", "normalised"),
}


class TallySolo:
    """Reads ``single-job-perf.csv``; throughputs are normalised to the job alone, so that its own is 1."""

    name = "tally-solo"
    title = "Tally jobs alone (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has the job, its kind, and its original throughput."""
        return {"exp_key", "workload_type", "original_throughput", "mem"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the solo values and features.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        job = sheet.cells["exp_key"]
        sheet.reject(job.index[job == ""], "exp_key", "is empty")
        sheet.reject(job.index[job.duplicated() & (job != "")], "exp_key", "names a job a second time")
        throughput = sheet.numbers("original_throughput", above=0.0)
        memory = sheet.numbers("mem", above=0.0, required=False)
        latency = pd.Series(float("nan"), index=job.index)
        if "original_avg_latency" in sheet.header:
            latency = sheet.numbers("original_avg_latency", above=0.0, required=False)
        features = [
            pd.DataFrame({"workload": job, "name": name, "value": sheet.numbers(column, required=False), "unit": unit})
            for column, (name, unit) in _FEATURES.items()
            if column in sheet.header
        ]
        good = sheet.good().index
        solo = pd.concat(
            pd.DataFrame({"workload": job, "measure": measure, "unit": unit, "value": value, "peak_memory_mib": memory})
            for measure, unit, value in (("normalised", "normalised", throughput), ("latency", "ms", latency))
        ).assign(gpu=gpu)
        solo["memory_kind"] = solo["peak_memory_mib"].notna().map({True: "nvidia-smi", False: None})
        solo = solo[solo.index.isin(good) & solo["value"].notna()]
        feature = pd.concat(features).assign(gpu=gpu) if features else pd.DataFrame(columns=["workload"])
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(job.loc[good]),
                "solo": solo.reset_index(drop=True),
                "feature": feature[feature.index.isin(good)].dropna().reset_index(drop=True),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )
