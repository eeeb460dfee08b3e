"""What the importers of co-run tables share: outcomes, and frames for runs, members, solos and workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from analysis.ingest.contract.names import WorkloadParts, parse_workload
from analysis.store.parsed import FRAME_COLUMNS

RAN, PARTIAL, DID_NOT_RUN = "ran", "partial", "did_not_run"

#: Values closer than this are the same measurement written twice.
SAME = 1e-3


def workload_frame(names: Iterable[str], parts: Mapping[str, WorkloadParts] | None = None) -> pd.DataFrame:
    """Return the frame ``workload`` for the distinct names, sorted.

    Parameters
    ----------
    names : iterable of str
        Names as the file writes them.
    parts : mapping, optional
        What is known of some of them; the rest is taken from the name.
    """
    given = parts or {}
    rows = [{"name": name, **vars(given.get(name) or parse_workload(name))} for name in sorted(set(names))]
    return pd.DataFrame(rows, columns=list(FRAME_COLUMNS["workload"])).astype({"batch_size": "Int64"})


def run_frame(
    member: pd.DataFrame, *, gpu: str, mechanism: str, note: pd.Series[str] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make one run of the members that share a line, and number the runs from 0 in the order of lines.

    Parameters
    ----------
    member : pd.DataFrame
        Members indexed by line, with an ``outcome``.
    gpu, mechanism : str
        Of all runs.
    note : pd.Series, optional
        A remark for each run, by line.

    Returns
    -------
    run, member : pd.DataFrame
        The frames ``run`` and ``member``, with only the columns that the store knows.
    """
    lines = member.index.unique()
    number = {int(line): place for place, line in enumerate(lines)}
    outcomes = member.groupby(level=0, sort=False)["outcome"]
    ran = outcomes.agg(lambda values: int((values == RAN).sum())).reindex(lines)
    size = outcomes.size().reindex(lines)
    run = pd.DataFrame(
        {
            "run": list(number.values()),
            "external_id": [f"line {line}" for line in lines],
            "gpu": gpu,
            "mechanism": mechanism,
            "k": size.to_numpy(),
            "outcome": [run_outcome(int(some), int(all_)) for some, all_ in zip(ran, size, strict=True)],
            "line": lines.to_numpy(),
            "note": None if note is None else note.reindex(lines).to_numpy(),
        }
    )
    numbered = member.assign(run=member.index.map(number)).reset_index(drop=True)
    return run, numbered[[column for column in FRAME_COLUMNS["member"] if column in numbered.columns]]


def run_outcome(ran: int, k: int) -> str:
    """Return the outcome of a run in which ``ran`` of ``k`` members ran."""
    if ran == k:
        return RAN
    return PARTIAL if ran else DID_NOT_RUN


def one_each(frame: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Keep one row for each key where a file repeats a measurement: the median of its values.

    Returns
    -------
    pd.DataFrame
        ``keys`` and ``value``, in the order of first appearance; keys without any value are left out.
    """
    known = frame.dropna(subset=[value])
    if known.empty:
        return known[[*keys, value]].reset_index(drop=True)
    return known.groupby(keys, sort=False)[value].median().reset_index()


def contradictions(frame: pd.DataFrame, keys: list[str], value: str) -> list[str]:
    """Name the first key of every group whose values differ by more than 1 in 1,000."""
    known = frame.dropna(subset=[value])
    if known.empty:
        return []
    spread = known.groupby(keys, sort=False)[value].agg(["min", "max"])
    apart = spread[(spread["max"] - spread["min"]) > SAME * spread["max"].abs()]
    first = apart.index.get_level_values(0)
    return sorted({str(name) for name in first})
