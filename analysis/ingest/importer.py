"""Imports files: opens, recognises, reads, and loads each in one transaction, and says what was taken."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import structlog

from analysis.errors import InputRefusedError, StallScopeError, Where
from analysis.ingest import mapping
from analysis.ingest.format import Format, Hints, Opened
from analysis.ingest.formats import choose
from analysis.ingest.opening import opened_files
from analysis.ingest.preview import Preview, preview
from analysis.ingest.repeats import already_there
from analysis.ingest.reports import ImportReport, of_parsed
from analysis.ingest.simulated import check_dataset, completed
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import SourceInfo, find_duplicate, load
from analysis.store.parsed import Parsed
from analysis.store.queries import coruns

__all__ = ["ImportReport", "Preview", "import_all", "import_file", "import_paths", "preview"]

_log = structlog.get_logger(__name__)


def import_paths(
    db: Database,
    paths: Iterable[Path | str],
    *,
    workload: str | None = None,
    gpu: str | None = None,
    dataset: str = "own",
    mapping: str | None = None,
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

    Returns
    -------
    list of ImportReport
        One a file, in the order of the names.
    """
    hints = Hints(workload=workload, gpu=gpu, dataset=dataset, mapping=mapping)
    reports: list[ImportReport] = []
    for path in paths:
        found = list(_expand(Path(path)))
        if not found:
            what, cure = "there is no such file", "Check the path; it is read on the machine that runs this."
            if Path(path).is_dir():
                what, cure = "the folder holds no files", "Give the folder with the exported files."
            reports.append(_refused(str(path), InputRefusedError(what, cure, Where(str(path)))))
        for file in found:
            reports += import_all(db, file, hints=hints)
    return reports


def import_file(db: Database, path: Path, *, name: str | None = None, hints: Hints | None = None) -> ImportReport:
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

    Returns
    -------
    ImportReport
        The account. For an archive of several files: the sums over its files, and their own reports under
        ``report["files"]``.
    """
    reports = import_all(db, path, name=name, hints=hints)
    return reports[0] if len(reports) == 1 else _merged(name or path.name, reports)


def import_all(db: Database, path: Path, *, name: str | None = None, hints: Hints | None = None) -> list[ImportReport]:
    """Import a file, or every file of an archive, each in a transaction of its own.

    Parameters
    ----------
    db, path, name, hints
        As for `import_file`.

    Returns
    -------
    list of ImportReport
        One a file.
    """
    hints = hints or Hints()
    if hints.solos is None:
        chosen = Filter(datasets=(hints.dataset,))
        hints = replace(hints, solos=lambda: coruns.solos(db, chosen))
    shown = name or path.name
    try:
        with opened_files(path, name=shown, spool=db.spool) as files:
            before = _state(path)
            return [_import_opened(db, opened, hints, path, before) for opened in files]
    except StallScopeError as error:
        return [_refused(shown, error)]
    except Exception as error:
        _log.exception("opening failed", file=shown)
        return [_refused(shown, _unexpected(shown, error))]


def _import_opened(
    db: Database, opened: Opened, hints: Hints, path: Path, before: tuple[int, int] | None
) -> ImportReport:
    found: Format | None = None
    try:
        duplicate = find_duplicate(db, opened.sha256)
        if duplicate is not None:
            return _duplicate(db, opened, duplicate)
        found = _format(db, opened, hints)
        hints = completed(hints, opened)
        parsed = _named(found.parse(opened, hints), hints)
        _check(opened, parsed, path, before)
        simulated = check_dataset(db, hints.dataset, opened)
        info = SourceInfo(
            hints.dataset, opened.name, opened.sha256, opened.size, simulated=simulated,
            title=hints.title, licence=hints.licence, citation=hints.citation,
        )  # fmt: skip
        told = of_parsed(opened.name, parsed, load(db, parsed, info))
        return told.model_copy(update={"warnings": [*told.warnings, *already_there(db, int(told.source_id or 0))]})
    except StallScopeError as error:
        return _refused(opened.name, error, found)
    except Exception as error:
        _log.exception("import failed", file=opened.name, format=found.name if found else None)
        return _refused(opened.name, _unexpected(opened.name, error), found)


def _named(parsed: Parsed, hints: Hints) -> Parsed:
    """Say in the report how the workload of a profile got its name, and the era of the format."""
    told = {**parsed.report, "era": parsed.era}
    if "kernel" in parsed.frames and isinstance(parsed.report.get("workload"), str):
        told["workload_from"] = hints.workload_from or ("by you" if hints.workload else "after the file")
    return replace(parsed, report=told)


def _format(db: Database, opened: Opened, hints: Hints) -> Format:
    """Return the user's mapping, the format that claims the file, or the saved mapping that has its columns."""
    if hints.mapping is not None:
        return mapping.format_of(mapping.named(db, hints.mapping))
    try:
        return choose(opened)
    except InputRefusedError as error:
        return mapping.choose_mapped(opened, mapping.saved(db), error)


def _check(opened: Opened, parsed: Parsed, path: Path, before: tuple[int, int] | None) -> None:
    """Refuse what can't be vouched for: a file that changed meanwhile, or of which nothing could be used."""
    if _state(path) != before:
        raise InputRefusedError(
            "the file changed while it was read",
            "Load it again when nothing writes to it any more.",
            Where(opened.name),
        )
    if parsed.rows_read and parsed.rows_loaded == 0:
        first = parsed.rejected.iloc[0]
        raise InputRefusedError(
            f"none of its {parsed.rows_read:,} rows could be understood; the first one: {first['reason']}",
            "Check that the file is what its header says, and export it again.",
            Where(opened.name, None if first["line"] is None else int(first["line"]), first["column"]),
        )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


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


def _refused(name: str, error: StallScopeError, found: Format | None = None) -> ImportReport:
    return ImportReport(
        file=name,
        format=found.name if found else None,
        status="rejected",
        error=error.sentence,
        report={"what": error.what, "cure": error.cure, "line": error.where.line, "column": error.where.column},
    )


def _unexpected(name: str, error: Exception) -> StallScopeError:
    what = f"the file could not be read ({type(error).__name__})"
    return StallScopeError(what, "Nothing of it was loaded; please report it together with the file.", Where(name))


def _duplicate(db: Database, opened: Opened, source_id: int) -> ImportReport:
    held = db.query("SELECT file_name, format, dataset FROM source WHERE source_id = ?", [source_id]).iloc[0]
    return ImportReport(
        file=opened.name,
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
