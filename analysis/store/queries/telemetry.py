"""What samples of a running cluster say of each workload: its peak memory, and how busy it keeps the GPU."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.store.counted import TELEMETRY
from analysis.store.database import Database

#: Names of series that hold memory in use, all of the process's context included.
_MEMORY = "(t.name = 'memory.used' OR t.name LIKE 'DCGM\\_FI\\_%FB\\_USED' ESCAPE '\\')"

#: Series of the share of time with a kernel on the GPU, the best first, and what makes them a share.
_BUSY = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0,
    "DCGM_FI_PROF_SM_ACTIVE": 1.0,
    "DCGM_FI_DEV_GPU_UTIL": 0.01,
    "utilization.gpu": 0.01,
}

#: MiB of a unit of memory.
_MIB = {"MiB": 1.0, "B": 1 / 1024**2, "bytes": 1 / 1024**2, "KiB": 1 / 1024, "GiB": 1024.0}


def of_workloads(database: Database, dataset: str) -> pd.DataFrame:
    """Return what telemetry says of every workload, where a series is one workload's.

    A figure of a device that several pods share belongs to none of them, and stands in no row.

    Parameters
    ----------
    database : Database
        The open database.
    dataset : str
        The data set.

    Returns
    -------
    pd.DataFrame
        gpu, workload, peak_memory_mib (the largest sample, of one device), busy (mean share of time with a kernel on
        the GPU, 0 to 1), samples. NaN where no series tells it.
    """
    return database.cached("telemetry of workloads", dataset, lambda: _read(database, dataset)).copy()


def _read(database: Database, dataset: str) -> pd.DataFrame:
    rows = database.query(
        f"""
        SELECT t.gpu, w.name AS workload, t.name, t.unit, {_MEMORY} AS memory, max(t.value) AS largest,
               avg(t.value) AS mean, count(t.value) AS samples
        FROM {TELEMETRY} t JOIN workload w ON w.workload_id = t.workload_id
        WHERE w.dataset = $dataset AND t.gpu IS NOT NULL AND t.value IS NOT NULL
              AND ({_MEMORY} OR t.name IN ({", ".join(f"'{name}'" for name in _BUSY)}))
        GROUP BY ALL ORDER BY t.gpu, w.name, t.name
        """,
        {"dataset": dataset},
    )
    found = []
    for (gpu, workload), part in rows.groupby(["gpu", "workload"], sort=True):
        used = part[part["memory"]]
        sizes = used["largest"].astype(float) * used["unit"].map(_MIB).astype(float)
        busy = {str(name): float(value) for name, value in zip(part["name"], part["mean"], strict=True)}
        share = next((busy[name] * scale for name, scale in _BUSY.items() if name in busy), np.nan)
        found.append((str(gpu), str(workload), sizes.max(), min(share, 1.0), int(part["samples"].max())))
    return pd.DataFrame(found, columns=["gpu", "workload", "peak_memory_mib", "busy", "samples"])
