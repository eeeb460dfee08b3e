"""Says of a file just loaded which of its measurements were there already, from another file."""

from __future__ import annotations

from analysis.store.database import Database
from analysis.store.queries import repeats


def already_there(database: Database, source_id: int) -> list[str]:
    """Return one sentence for each file that holds the same co-runs or launches as this source.

    Parameters
    ----------
    database : Database
        The open database, the source loaded.
    source_id : int
        The source.
    """
    cure = "Remove one of the two on the Library page, or leave it out on the Checks page."
    said = []
    for file, runs in repeats.runs_again(database, source_id).itertuples(index=False):
        what = "1 co-run stands" if runs == 1 else f"{runs:,} co-runs stand"
        said.append(f"{what} in {file} too, with the same values to the last digit: copies, not repeats. {cure}")
    for row in repeats.repeated_launches(database, source_id=source_id).to_dict("records"):
        what = "The only launch" if row["launches"] == 1 else f"All {row['launches']:,} launches"
        said.append(
            f"{what} of {row['workload']} on {row['gpu']} {'stands' if row['launches'] == 1 else 'stand'} in "
            f"{row['other_file']} too, with the same values: one measurement, exported twice. {cure}"
        )
    return said
