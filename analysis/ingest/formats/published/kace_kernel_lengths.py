"""KACE's kernel lengths: for each workload alone, how long its kernels run and how much they move over PCIe."""

from __future__ import annotations

from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.formats.published.kace_columns import COUNTERS, GPU, LENGTHS, read_features
from analysis.ingest.formats.shared.corun_frames import workload_frame
from analysis.ingest.text.delimited import header_of, read_sheet
from analysis.store.parsed import Parsed


class KaceKernelLengths:
    """Reads ``kace_kernel_lengths.csv``, one row a workload; the counters in it are those of the pairs."""

    name = "kace-kernel-lengths"
    title = "KACE kernel lengths of solo workloads (CSV)"

    def sniff(self, opened: Opened) -> bool:
        """Say whether the header has the workload as ``Type`` and the mean length of its kernels."""
        return {"Type", "ave_Kernel_Length", "long/short_Ratio"} <= set(header_of(opened)[0])

    def parse(self, opened: Opened, hints: Hints) -> Parsed:
        """Read the features of each workload.

        Raises
        ------
        InputRefusedError
            If the file isn't a table with rows.
        """
        sheet = read_sheet(opened)
        gpu = hints.gpu or GPU
        workload = sheet.cells["Type"]
        sheet.reject(workload.index[workload == ""], "Type", "is empty")
        sheet.reject(workload.index[workload.duplicated() & (workload != "")], "Type", "names a workload a second time")
        units = {**COUNTERS, **LENGTHS}
        feature = read_features(sheet, workload, {name: name for name in units}, units)
        good = sheet.good()
        feature = feature[feature.index.isin(good.index)].dropna(subset=["value"]).assign(gpu=gpu)
        return Parsed(
            format=self.name,
            rows_read=sheet.rows_read,
            rejected=sheet.rejected(),
            frames={"workload": workload_frame(good["Type"]), "feature": feature.reset_index(drop=True)},
            report={"encoding": opened.encoding, "separator": sheet.delimiter, "gpu": gpu},
        )
