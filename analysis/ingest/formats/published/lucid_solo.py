"""Lucid's jobs alone: speed, utilisation and memory of each configuration on an RTX 3090."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.published.lucid_columns import GPU, job_names
from analysis.ingest.formats.shared.corun_frames import workload_frame
from analysis.ingest.text.delimited import header_of, read_sheet
from analysis.store.parsed import Parsed

UNIT = "samples/s"

#: Name in the file -> unit. ``label`` is the authors' class of how well the job shares: 0 best, 2 worst.
_FEATURES = {"gpu_util": "%", "gmem_util": "%", "gmem": "MiB", "label": "class"}


class LucidSolo:
    """Reads ``single_data.csv``: the only inputs that Lucid's pairs have."""

    name = "lucid-solo"
    title = "Lucid jobs alone (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has model, dataset, batch size, amp, speed and both utilisations of one job."""
        return {"model", "dataset", "batchsize", "amp", "speed", "gpu_util", "gmem_util"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the solo values and features.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        workload = job_names(sheet, "", "batchsize", "dataset")
        value = sheet.numbers("speed", above=0.0)
        features = {name: sheet.numbers(name, least=0.0, required=False) for name in _FEATURES if name in sheet.header}
        again = workload.duplicated()
        sheet.reject(workload.index[again], None, "is a configuration that stands in the file already")
        good = sheet.good().index
        memory = features.get("gmem", pd.Series(float("nan"), index=workload.index))
        solo = pd.DataFrame(
            {
                "workload": workload, "gpu": gpu, "measure": "throughput", "unit": UNIT, "value": value,
                "peak_memory_mib": memory, "memory_kind": memory.notna().map({True: "nvidia-smi", False: None}),
            }
        ).loc[good]  # fmt: skip
        feature = pd.concat(
            pd.DataFrame({"workload": workload, "gpu": gpu, "name": name, "value": numbers, "unit": _FEATURES[name]})
            for name, numbers in features.items()
        )
        feature = feature[feature.index.isin(good)].dropna(subset=["value"]).sort_index(kind="stable")
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={
                "workload": workload_frame(workload.loc[good]),
                "solo": solo.reset_index(drop=True),
                "feature": feature.reset_index(drop=True),
            },
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )
