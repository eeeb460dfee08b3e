"""What KACE's files have in common: the GPU, the counters of a workload running alone, and their units."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from analysis.ingest.text.delimited import Sheet

GPU = "V100-32GB"
THROUGHPUT_UNIT = "samples/s"

#: Means over a workload's kernels, weighted by duration, as Nsight Compute counted them.
COUNTERS: Mapping[str, str] = {
    "Threads": "threads",
    "Compute (SM) Throughput": "%",
    "DRAM Throughput": "%",
    "Memory Throughput": "%",
    "Registers": "registers",
    "Static Shared Memory": "byte",
}
#: What nvidia-smi showed while the workload ran alone; ``memcap`` is its largest memory use.
UTILISATION: Mapping[str, str] = {"sm%": "%", "mem%": "%", "memcap": "GB"}
#: Only in the file of kernel lengths. The ratio is the number of long kernels for each short one.
LENGTHS: Mapping[str, str] = {
    "PCIe read bandwidth": "",
    "PCIe write bandwidth": "",
    "Short_Kernel": "us",
    "avg_Thread": "threads",
    "Long_Kernel": "us",
    "ave_Kernel_Length": "us",
    "long/short_Ratio": "",
}
#: The memory limits of CUDA MPS and the driver's figures count in powers of two, whatever their label.
MIB_PER_GB = 1024.0


def read_features(
    sheet: Sheet, workload: pd.Series[str], columns: Mapping[str, str], units: Mapping[str, str]
) -> pd.DataFrame:
    """Return the features of the named columns in long form.

    Parameters
    ----------
    sheet : Sheet
        The file; cells that are no numbers are rejected there, empty ones have no value.
    workload : pd.Series
        Whose features they are, by line.
    columns : mapping of str to str
        The file's column -> the feature's name; columns that the file lacks are left out.
    units : mapping of str to str
        Unit of each feature.

    Returns
    -------
    pd.DataFrame
        Indexed by line: workload, name, value, unit.
    """
    blocks = [
        pd.DataFrame(
            {"workload": workload, "name": name, "value": sheet.numbers(column, required=False), "unit": units[name]}
        )
        for column, name in columns.items()
        if column in sheet.header
    ]
    if not blocks:
        return pd.DataFrame(columns=["workload", "name", "value", "unit"])
    return pd.concat(blocks)
