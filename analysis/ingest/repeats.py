"""Says of a file just loaded which of its measurements were there already, from another file."""

from __future__ import annotations

from analysis.store.database import Database
from analysis.store.queries import repeats


def already_there(database: Database, source_id: int) -> list[str]:
    """Return one sentence for each file that holds the same co-runs, launches or samples as this source.

    Parameters
    ----------
    database : Database
        The open database, the source loaded.
    source_id : int
        The source.
    """
    if repeats.is_alone(database, source_id):
        return []
    cure = "Remove one of the two on the Library page, or leave it out on the Checks page."
    said = []
    for file, runs, rebased in repeats.runs_again(database, source_id).itertuples(index=False):
        if copies := runs - rebased:
            what = "1 co-run stands" if copies == 1 else f"{copies:,} co-runs stand"
            said.append(f"{what} in {file} too, with the same values to the last digit: copies, not repeats. {cure}")
        if rebased:
            what = "1 co-run has" if rebased == 1 else f"{rebased:,} co-runs have"
            said.append(
                f"{what} the values of {file} to the last digit, and other values alone: the baselines were measured "
                "again or for another campaign, so the slowdowns differ. Import one of the two as a data set of its "
                "own, and keep the one whose baselines belong to the co-runs."
            )
    for row in repeats.repeated_launches(database, source_id=source_id).to_dict("records"):
        one = row["launches"] == 1
        what = "The only launch" if one else f"All {row['launches']:,} launches"
        there = (row["other_workload"], row["other_gpu"])
        other = "" if there == (row["workload"], row["gpu"]) else f", there as {there[0]} on {there[1]}"
        of = "" if row["source_id"] == source_id else f" in {row['file_name']}"
        said.append(
            f"{what} of {row['workload']} on {row['gpu']}{of} {'stands' if one else 'stand'} in {row['other_file']} "
            f"too, with the same values{other}: one measurement, exported twice. {cure}"
        )
    for row in repeats.repeated_samples(database, source_id=source_id).to_dict("records"):
        what = f"All {row['of']:,}" if row["samples"] == row["of"] else f"{row['samples']:,} of its {row['of']:,}"
        said.append(
            f"{what} samples stand in {row['other_file']} too, with the same values at the same moments: one "
            f"recording, exported twice. {cure}"
        )
    return said
