"""What recordings of GPUs hold, one row a recording and GPU."""

from __future__ import annotations

import pandas as pd

from analysis.store import kept
from analysis.store.database import Database

#: Formats that hold samples of devices over time.
_SERIES = ("utilization.gpu", "power.draw", "memory.used", "temperature.gpu")


def recordings(database: Database) -> pd.DataFrame:
    """Return recordings, the newest first.

    Returns
    -------
    pd.DataFrame
        source_id, dataset, file_name, device, gpu, from_at, to_at, samples, and over time: utilisation (mean percent of
        time with any kernel), power (mean W), memory (largest MiB), temperature (largest °C); NaN where not told.
        ``simulated`` where a simulator made it.
    """
    return database.query(
        f"""SELECT t.source_id, s.dataset, s.file_name, t.device, t.gpu, min(t.measured_at) AS from_at,
                   max(t.measured_at) AS to_at, count(DISTINCT t.measured_at) AS samples,
                   avg(t.value) FILTER (t.name = $util) AS utilisation, avg(t.value) FILTER (t.name = $power) AS power,
                   max(t.value) FILTER (t.name = $memory) AS memory,
                   max(t.value) FILTER (t.name = $temperature) AS temperature, bool_or(s.simulated) AS simulated
            FROM {kept.TELEMETRY} t JOIN source s USING (source_id)
            WHERE t.device IS NOT NULL AND t.measured_at IS NOT NULL
                  AND t.name IN ($util, $power, $memory, $temperature)
            GROUP BY t.source_id, s.dataset, s.file_name, t.device, t.gpu
            ORDER BY t.source_id DESC, t.device LIMIT 200""",
        dict(zip(("util", "power", "memory", "temperature"), _SERIES, strict=True)),
    )
