"""The tables of the witness as people read them: for the screen, for files, and as a report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pandas as pd

from analysis.errors import StallScopeError, UsageError, Where
from analysis.ingest.public import entry
from analysis.predict.evaluate import witness
from analysis.predict.evaluate.protocols import PROTOCOLS
from analysis.predict.evaluate.witness import FULL, Study
from analysis.report import comparison
from analysis.report.basis import moment, software
from analysis.report.document import Block, Notice, ReportDocument, Section, Source, Table, Text
from analysis.report.latex import to_latex
from analysis.report.spreadsheet import csv_bytes
from analysis.report.table import columns_of, table
from analysis.settings import asset

CONTENTS = {
    "evidence": "stalls, counters, and both",
    "predictors": "all predictors",
    "white-box": "the white box without training",
}

_EVIDENCE = columns_of(
    "protocol", "title/predictor", "folds/paired", "stalls", "counters/mape", "both", "gain/evidence", "gain_p",
    "stalls_worse", "stalls_worse_p",
)  # fmt: skip
_WHITE_BOX = columns_of("k", "n", "mape", "median_ape", "bias", "spearman", "no_interference", "train_median")
_NAMED = columns_of("short", "members", "named/resources", "agrees", "turns_share")
_SENSITIVITY = columns_of("input", "moved", "mape", "spearman")
_BY_WAIT = columns_of("short/own", "n", "median_slowdown", "stalls", "counters/mape", "both")
_SINGLE = columns_of("what/evidence", "quantity", "spearman")

_NOTICE = (
    "Simulated: GPGPU-Sim 4, a cycle-level model that others wrote, ran small kernels of our own on a third of an RTX "
    "2060. No GPU was involved, 16 kernels are not jobs, and PTX is not what a GPU executes."
)


def tables(found: Study) -> dict[str, Table]:
    """Make the tables of the chapter, by a name that files can carry.

    Parameters
    ----------
    found : Study
        As `analysis.predict.evaluate.witness.run` computes it.
    """
    made = {
        "evidence": table(
            "What stalls add, simulated", found.evidence, _EVIDENCE,
            caption="MAPE of the same learner on stalls alone, counters alone and both, always beside how the kernels "
            "are configured. Gain: counters less both, mean over folds; p by Wilcoxon over folds, Holm over all tests "
            "of a protocol. Folds overlap, so p is too small rather than too large; a single fold has none.",
        ),
        "white-box": table(
            "The white box without training, simulated", found.white_box, _WHITE_BOX,
            caption="It has seen no co-run. The median is that of the same rows, which flatters it.",
        ),
        "named": table(
            "What the white box names, and what the warps waited for", found.named, _NAMED,
            caption="Members of pairs with S of 1.2 and more, by the resource that both jobs together waited for most "
            "when alone. Named: the largest part of the predicted ln S; nothing: predicted below 1.02.",
        ),
        "sensitivity": table(
            "What moves the white box", found.sensitivity, _SENSITIVITY,
            caption="The same pairs with other profiles. Moved: mean absolute change of the predicted ln S.",
        ),
        "by-wait": table(
            "Where stalls help: unseen pairs by what the slowed job waits for", found.by_wait, _BY_WAIT,
            caption="MAPE of gradient boosting on each evidence.",
        ),
        "single": table(
            "Single quantities of the profiles and S", found.single, _SINGLE,
            caption="Spearman's rank correlation over all members of pairs, nothing fitted.",
        ),
    }  # fmt: skip
    for protocol in dict.fromkeys(row["protocol"] for row in found.predictors):
        rows = [row for row in comparison.records(found.predictors) if row["protocol"] == protocol and row["mape"]]
        made[f"predictors-{protocol}"] = table(
            f"Predictors, protocol {protocol}, simulated", rows, comparison.COLUMNS,
            caption=f"{PROTOCOLS[protocol][:1].upper()}{PROTOCOLS[protocol][1:]}. Best first, with 95 % intervals over "
            f"workloads{'' if protocol in FULL else '; the learners of the first table and closed forms alone'}.",
        )  # fmt: skip
    return {name: one for name, one in made.items() if one.rows}


def section_of(name: str) -> str:
    """Return the part of the report in which a table stands."""
    return "predictors" if name.startswith("predictors") else "evidence" if name in _ABOUT_EVIDENCE else "white-box"


_ABOUT_EVIDENCE = ("evidence", "by-wait", "single")


def write(found: Study, path: Path) -> list[str]:
    """Write all tables: .tex into one file, .csv into one file a table (the table's name behind the file's).

    Returns
    -------
    list of str
        The files.

    Raises
    ------
    StallScopeError
        If a file can't be written.
    """
    check(path)
    made = tables(found)
    try:
        if path.suffix.lower() == ".tex":
            text = "\n\n".join(to_latex(one, label=f"tab:witness-{name}") for name, one in made.items())
            path.write_text(text, encoding="utf-8")
            return [str(path)]
        files = []
        for name, one in made.items():
            target = path.with_name(f"{path.stem}-{name}{path.suffix}")
            target.write_bytes(csv_bytes(pd.DataFrame(one.rows, columns=[column.key for column in one.columns])))
            files.append(str(target))
    except OSError as error:
        raise StallScopeError(
            f"the tables can't be written: {error.strerror or error}", "Name a file in a folder that exists.",
            Where(str(path)),
        ) from error  # fmt: skip
    return files


def check(path: Path) -> None:
    """Refuse an ending that is neither .csv nor .tex, before anything is computed.

    Raises
    ------
    UsageError
        With the endings that there are.
    """
    if path.suffix.lower() not in (".csv", ".tex"):
        raise UsageError(f"the tables can't be written as {path.suffix!r}", "End the file name in .csv or .tex.")


def witness_report(*, contents: Sequence[str] = (), now: datetime | None = None) -> ReportDocument:
    """Report what the witness says, as `stallscope reproduce witness` computed it from the committed files."""
    found = witness.kept()
    made = tables(found)
    parts = [name for name in CONTENTS if not contents or name in contents]
    sections = []
    for part in parts:
        blocks: list[Block] = [one for name, one in made.items() if section_of(name) == part]
        if part == parts[0]:
            blocks.insert(0, Notice(level="warning", sentence=_NOTICE))
        if part == "predictors":
            words = (
                "12 triples are fewer than the 30 runs that a score takes elsewhere: read pairs-to-k with that in mind."
            )
            blocks.append(Text(sentences=(words,)))
        sections.append(Section(key=part, title=CONTENTS[part][:1].upper() + CONTENTS[part][1:], blocks=tuple(blocks)))
    about = entry(witness.DATASET)
    chosen = "".join(f" --contents {name}" for name in contents)
    return ReportDocument(
        kind="witness",
        title="What an independent simulator says about stalls",
        subtitle=about.title,
        created_at=moment(now),
        provenance="simulated",
        summary=(witness.in_words(found),),
        filters=("The data set witness as it ships.",),
        sections=tuple(sections),
        sources=tuple(
            Source(
                file=file.name, dataset=about.name, format=file.format, sha256=file.sha256, rows_read=rows,
                rows_loaded=rows, rows_rejected=0, simulated=True, licence=about.licence, citation=about.citation,
            )
            for file in about.files
            for rows in [_rows(str(file.shipped))]
        ),
        software=software(),
        reproduce=("stallscope reproduce witness", f"stallscope report --kind witness{chosen} --out report.html"),
    )  # fmt: skip


def _rows(shipped: str) -> int:
    """Count the rows of a shipped file: all lines but the remark and the header."""
    return len(asset("data", *shipped.split("/")).read_text(encoding="utf-8").splitlines()) - 2
