"""A comparison of predictors as a file for papers and spreadsheets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import StallScopeError, UsageError, Where

if TYPE_CHECKING:
    from analysis.predict.evaluate.comparison import Evaluation


def check(path: Path) -> None:
    """Refuse an ending that is neither .csv nor .tex, before anything is computed.

    Raises
    ------
    UsageError
        With the endings that there are.
    """
    if path.suffix.lower() not in (".csv", ".tex"):
        raise UsageError(f"a comparison can't be written as {path.suffix!r}", "End the file name in .csv or .tex.")


def write(path: Path, found: Evaluation) -> None:
    """Write the comparison's table, every figure as CSV or what a page shows as LaTeX.

    Raises
    ------
    StallScopeError
        If the file can't be written.
    """
    from analysis.report.comparison import records
    from analysis.report.latex import comparison_latex
    from analysis.report.spreadsheet import csv_bytes

    try:
        if path.suffix.lower() == ".tex":
            path.write_text(comparison_latex(found.summary()), encoding="utf-8")
        else:
            import pandas as pd

            table = pd.DataFrame(records(found.rows)).drop(columns=["mape_ci"])
            path.write_bytes(csv_bytes(table))
    except OSError as error:
        raise StallScopeError(
            f"the table can't be written: {error.strerror or error}", "Name a file in a folder that exists.",
            Where(str(path)),
        ) from error  # fmt: skip
