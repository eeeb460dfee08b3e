"""What Lucid's two files have in common: the GPU, names of jobs, and the speeds that nobody measured."""

from __future__ import annotations

import pandas as pd

from analysis.ingest.text.delimited import Sheet

GPU = "RTX 3090"

#: Jobs that keep the CPU busy: the authors wrote a speed of 1 for all of them instead of measuring it.
HARD_CODED_MODELS = frozenset({"PPO", "TD3"})
HARD_CODED = "hard_coded"


def job_names(sheet: Sheet, suffix: str, batch: str, data: str) -> pd.Series[str]:
    """Return ``model/dataset/batch size/amp`` for every row, and reject rows that lack one of the four.

    Parameters
    ----------
    sheet : Sheet
        The file.
    suffix : str
        ``1`` or ``2`` for the members of a pair, empty for jobs alone.
    batch, data : str
        The file's names of those columns, without the suffix.

    Returns
    -------
    pd.Series
        Names by line.
    """
    parts = [f"{name}{suffix}" for name in ("model", data, batch, "amp")]
    for column in parts:
        sheet.reject(sheet.cells.index[sheet.cells[column] == ""], column, "is empty")
    batches, amp = sheet.cells[parts[2]], sheet.cells[parts[3]]
    sheet.reject(batches.index[~batches.str.fullmatch(r"[1-9]\d{0,6}|")], parts[2], "isn't a batch size")
    sheet.reject(amp.index[~amp.isin(["0", "1", ""])], parts[3], "isn't 0 or 1")
    return sheet.cells[parts].agg("/".join, axis=1)
