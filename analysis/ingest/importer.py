"""Imports files: has them read, loads each in one transaction, and says what was taken."""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest import mapping, public
from analysis.ingest.contract.filenames import unique_names
from analysis.ingest.contract.format import Hints
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.contract.simulated import check_dataset
from analysis.ingest.preview import Preview, preview
from analysis.ingest.reading import Read, ReadContext, Reader, read_here, unexpected
from analysis.logs import get_logger
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import DuplicateError, SourceInfo, find_duplicate, load
from analysis.store.queries import coruns, repeats

__all__ = ["ImportReport", "Preview", "import_all", "import_file", "import_paths", "preview"]

_log = get_logger(__name__)

#: What a file may hold that can stand in another one too: co-runs, launches, samples.
_REPEATABLE = ("run", "kernel", "telemetry")


def already_there(database: Database, loaded: Mapping[int, Collection[str]]) -> dict[int, list[str]]:
    """Return one sentence for each earlier file that holds the same co-runs, launches or samples.

    Parameters
    ----------
    database : Database
        The open database, the sources loaded.
    loaded : mapping of int to collection of str
        The frames that each source brought; what none of them brought is not looked for.

    Returns
    -------
    dict of int to list of str
        By source; one without repeats is left out.
    """
    of = {kind: [source for source, frames in loaded.items() if kind in frames] for kind in _REPEATABLE}
    said: dict[int, list[str]] = {}
    first = database.scalar("SELECT min(source_id) FROM source")
    if not any(source != first for sources in of.values() for source in sources):
        return said
    cure = "Remove one of the two on the Library page, or leave it out on the Checks page."
    if of["run"]:
        for source, file, runs, rebased in repeats.runs_again(database, of["run"]).itertuples(index=False):
            if copies := runs - rebased:
                what = "1 co-run stands" if copies == 1 else f"{copies:,} co-runs stand"
                said.setdefault(source, []).append(
                    f"{what} in {file} too, with the same values to the last digit: copies, not repeats. {cure}"
                )
            if rebased:
                what = "1 co-run has" if rebased == 1 else f"{rebased:,} co-runs have"
                said.setdefault(source, []).append(
                    f"{what} the values of {file} to the last digit, and other values alone: the baselines were "
                    "measured again or for another campaign, so the slowdowns differ. Import one of the two as a data "
                    "set of its own, and keep the one whose baselines belong to the co-runs."
                )
    if of["kernel"]:
        for row in repeats.repeated_launches(database, sources=of["kernel"]).to_dict("records"):
            source = _later(row, loaded)
            one = row["launches"] == 1
            what = "The only launch" if one else f"All {row['launches']:,} launches"
            there = (row["other_workload"], row["other_gpu"])
            other = "" if there == (row["workload"], row["gpu"]) else f", there as {there[0]} on {there[1]}"
            where = "" if row["source_id"] == source else f" in {row['file_name']}"
            said.setdefault(source, []).append(
                f"{what} of {row['workload']} on {row['gpu']}{where} {'stands' if one else 'stand'} in "
                f"{row['other_file']} too, with the same values{other}: one measurement, exported twice. {cure}"
            )
    if of["telemetry"]:
        for row in repeats.repeated_samples(database, sources=of["telemetry"]).to_dict("records"):
            what = f"All {row['of']:,}" if row["samples"] == row["of"] else f"{row['samples']:,} of its {row['of']:,}"
            said.setdefault(row["source_id"], []).append(
                f"{what} samples stand in {row['other_file']} too, with the same values at the same moments: one "
                f"recording, exported twice. {cure}"
            )
    return said


def _later(row: Mapping[Hashable, Any], loaded: Mapping[int, Collection[str]]) -> int:
    """Return which of two files with the same launches is the one just loaded: the later of those that are."""
    return max(int(source) for source in (row["source_id"], row["other_id"]) if source in loaded)


def import_paths(
    db: Database,
    paths: Iterable[Path | str],
    *,
    workload: str | None = None,
    gpu: str | None = None,
    dataset: str = "own",
    mapping: str | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> list[ImportReport]:
    """Import files, folders and patterns; one bad file never keeps the others out.

    Parameters
    ----------
    db : Database
        Where to load.
    paths : iterable of Path or str
        Files, folders (every file in them), or patterns such as ``runs/*.csv``.
    workload, gpu : str, optional
        For profiles; otherwise the file's name, and the GPU that the file tells.
    dataset : str
        Data set to load into.
    mapping : str, optional
        Name of a saved mapping to read the files by.
    progress : callable, optional
        Told the share that is done and the file that comes next.

    Returns
    -------
    list of ImportReport
        One a file, in the order of the names.
    """
    hints = Hints(workload=workload, gpu=gpu, dataset=dataset, mapping=mapping)
    reports: list[ImportReport] = []
    loaded: dict[int, Collection[str]] = {}
    done = 0
    given = [(path, list(_expand(Path(path)))) for path in paths]
    files = list(dict.fromkeys(file for _, found in given for file in found))
    names = dict(zip(files, unique_names(files), strict=True))
    for path, found in given:
        if not found:
            what, cure = "there is no such file", "Check the path; it is read on the machine that runs this."
            if Path(path).is_dir():
                what, cure = "the folder holds no files", "Give the folder with the exported files."
            reports.append(_refused(str(path), InputRefusedError(what, cure, Where(str(path)))))
        for file in found:
            if progress is not None and len(files) > 1:
                progress(done / len(files), f"{names[file]}, file {done + 1:,} of {len(files):,}")
            done += 1
            reports += _taken(db, file, names[file], hints, read_here, loaded)
    if progress is not None and len(files) > 1:
        progress(1.0, f"{len(files):,} files read")
    return _with_repeats(db, reports, loaded)


def import_file(
    db: Database, path: Path, *, name: str | None = None, hints: Hints | None = None, reader: Reader = read_here
) -> ImportReport:
    """Import one file; bad input never raises but is the status ``rejected`` with a sentence.

    Parameters
    ----------
    db : Database
        Where to load.
    path : Path
        The file.
    name : str, optional
        Its name as the user knows it.
    hints : Hints, optional
        What the user says that the file does not.
    reader : Reader, optional
        What reads it; by default this process.

    Returns
    -------
    ImportReport
        The account. For an archive of several files: the sums over its files, and their own reports under
        ``report["files"]``.
    """
    reports = import_all(db, path, name=name, hints=hints, reader=reader)
    return reports[0] if len(reports) == 1 else _merged(name or path.name, reports)


def import_all(
    db: Database, path: Path, *, name: str | None = None, hints: Hints | None = None, reader: Reader = read_here
) -> list[ImportReport]:
    """Import a file, or every file of an archive, each in a transaction of its own.

    Parameters
    ----------
    db, path, name, hints, reader
        As for `import_file`.

    Returns
    -------
    list of ImportReport
        One a file.

    Raises
    ------
    CancelledError
        If the reader was told to stop; nothing of the file that it read is loaded.
    """
    loaded: dict[int, Collection[str]] = {}
    return _with_repeats(db, _taken(db, path, name or path.name, hints or Hints(), reader, loaded), loaded)


def _taken(
    db: Database, path: Path, name: str, hints: Hints, reader: Reader, loaded: dict[int, Collection[str]]
) -> list[ImportReport]:
    """Load what a path holds, and write down which frames each new source brought."""
    if hints.solos is None:
        chosen = Filter(datasets=(hints.dataset,))
        hints = replace(hints, solos=lambda: coruns.solos(db, chosen))
    asked = ReadContext(
        hints, db.spool, lambda sha256: find_duplicate(db, sha256) is not None, lambda: mapping.saved(db)
    )  # fmt: skip
    return [_take(db, read, hints, loaded) for read in reader(path, name, asked)]


def _take(db: Database, read: Read, hints: Hints, loaded: dict[int, Collection[str]]) -> ImportReport:
    """Load what was read, all of it or nothing."""
    try:
        if read.error is not None:
            return _refused(read.name, read.error, read.format)
        if read.parsed is None or read.told is None:
            duplicate = find_duplicate(db, read.sha256)
            if duplicate is not None:
                return _duplicate(db, read, duplicate)
            # Its bytes were there while it was looked at, and have been taken out since.
            gone = InputRefusedError("the same bytes were taken out meanwhile", "Load it again.", Where(read.name))
            return _refused(read.name, gone, read.format)
        check_dataset(db, hints.dataset, read.name, simulated=read.simulated)
        info = SourceInfo(
            hints.dataset, read.name, read.sha256, read.size, simulated=read.simulated,
            title=hints.title, licence=hints.licence, citation=hints.citation,
        )  # fmt: skip
        source_id = load(db, read.parsed, info)
        loaded[source_id] = frozenset(read.parsed.frames)
        warnings = [*read.told.warnings, *_strange(read, hints.dataset)]
        return read.told.model_copy(update={"source_id": source_id, "warnings": warnings})
    except DuplicateError as found:
        return _duplicate(db, read, found.source_id)
    except StallScopeError as error:
        return _refused(read.name, error, read.format)
    except Exception as error:
        _log.exception("import failed", file=read.name, format=read.format)
        return _refused(read.name, unexpected(read.name, error), read.format)


def _strange(read: Read, dataset: str) -> list[str]:
    """Say that a file goes into a public data set that it is no part of."""
    if not public.foreign(dataset, read.sha256):
        return []
    return [
        f"{dataset} is the name of a public data set, and these bytes were not published as a part of it: its figures "
        "are not those of the publication any more. Take the file out, and load it with another name for the data set."
    ]


def _with_repeats(
    db: Database, reports: list[ImportReport], loaded: Mapping[int, Collection[str]]
) -> list[ImportReport]:
    """Say what was there already; the files are loaded by now, so nothing that goes wrong here may say otherwise."""
    try:
        said = already_there(db, loaded)
    except Exception:
        _log.exception("looking for repeats failed", files=len(loaded))
        sentence = "It could not be looked up whether its measurements stand in another file; `stallscope check` tells."
        said = {source: [sentence] for source in loaded}
    return [
        report.model_copy(update={"warnings": [*report.warnings, *said[report.source_id]]})
        if report.status == "loaded" and report.source_id in said
        else report
        for report in reports
    ]


def _expand(path: Path) -> Iterator[Path]:
    """Yield the files that a path means: itself, those below a folder, or those that a pattern fits."""
    if path.is_dir():
        yield from sorted(file for file in path.rglob("*") if file.is_file() and not _hidden(file, path))
    elif path.exists():
        yield path
    elif glob.has_magic(str(path)):
        found = Path(path.anchor or ".").glob(str(path.relative_to(path.anchor)))
        yield from sorted(file for file in found if file.is_file())


def _hidden(file: Path, below: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(below).parts)


def _refused(name: str, error: StallScopeError, form: str | None = None) -> ImportReport:
    return ImportReport(
        file=name,
        format=form,
        status="rejected",
        error=error.sentence,
        report={"what": error.what, "cure": error.cure, "line": error.where.line, "column": error.where.column},
    )


def _duplicate(db: Database, read: Read, source_id: int) -> ImportReport:
    held = db.query("SELECT file_name, format, dataset FROM source WHERE source_id = ?", [source_id]).iloc[0]
    return ImportReport(
        file=read.name,
        format=str(held["format"]),
        status="duplicate",
        source_id=source_id,
        warnings=[
            f"The same bytes are loaded already, as {held['file_name']} (source {source_id}) in the data set "
            f"{held['dataset']}; nothing was added."
        ],
    )


def _merged(name: str, reports: list[ImportReport]) -> ImportReport:
    """Return one account over the files of an archive."""
    statuses = {report.status for report in reports}
    status = next(word for word in ("loaded", "duplicate", "rejected") if word in statuses)
    errors = [report.error for report in reports if report.error]
    set_aside: dict[str, int] = {}
    for report in reports:
        for rule, count in report.set_aside.items():
            set_aside[rule] = set_aside.get(rule, 0) + count
    formats = sorted({report.format for report in reports if report.format})
    return ImportReport(
        file=name,
        format=", ".join(formats) or None,
        status=status,
        rows_read=sum(report.rows_read for report in reports),
        rows_loaded=sum(report.rows_loaded for report in reports),
        rows_rejected=sum(report.rows_rejected for report in reports),
        set_aside=set_aside,
        launches=sum(report.launches for report in reports),
        kernels=sum(report.kernels for report in reports),
        runs=sum(report.runs for report in reports),
        members=sum(report.members for report in reports),
        stall_reasons=sorted({reason for report in reports for reason in report.stall_reasons}),
        gpus=sorted({gpu for report in reports for gpu in report.gpus}),
        warnings=[f"{report.file}: {text}" for report in reports for text in report.warnings]
        + (errors if status != "rejected" else []),
        error=errors[0] if status == "rejected" and errors else None,
        report={"files": [report.model_dump(mode="json") for report in reports]},
    )
