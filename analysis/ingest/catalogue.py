"""The catalogue of public data sets: what there is, and loading one from its address or from local copies."""

from __future__ import annotations

import hashlib
import ipaddress
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from analysis.errors import InputRefusedError, StallScopeError, UsageError, Where
from analysis.ingest.contract.format import Hints, Opened
from analysis.ingest.contract.reports import ImportReport
from analysis.ingest.importer import import_file
from analysis.ingest.public import CatalogueEntry, CatalogueFile, entries, entry
from analysis.ingest.registry import choose
from analysis.ingest.source.opening import opened_files
from analysis.settings import asset, get_settings
from analysis.store.database import Database
from analysis.store.filters import Filter
from analysis.store.loader import remove_source
from analysis.store.queries import sources

_TIMEOUT_S = 30.0
_CHUNK = 1 << 16
_LOCAL = "Give local copies instead, with --file or on the Catalogue page."


def address(repository: str, commit: str, path: str, host: str | None = None) -> str:
    """Put together where a file of a repository lies at a commit.

    Parameters
    ----------
    repository, commit, path : str
        ``OWNER/NAME``, the commit, and the path inside.
    host : str, optional
        Address that the three are put behind; by default that of the settings.

    Returns
    -------
    str
        The address.
    """
    base = (host or get_settings().catalogue_host).rstrip("/")
    return "/".join([base, *(urllib.parse.quote(part) for part in (repository, commit, path))])


def fetch(url: str, target: Path, *, size: int, sha256: str) -> None:
    """Download a file and keep it only if it is the published one.

    Parameters
    ----------
    url : str
        Its address: https, or http on this machine itself.
    target : Path
        Where to write; nothing is left there when the download fails.
    size : int
        Bytes it must have; reading stops one byte later.
    sha256 : str
        Checksum it must have.

    Raises
    ------
    InputRefusedError
        If the address isn't allowed, doesn't answer, or sends something else.
    """
    _check(url)
    digest = hashlib.sha256()
    got = 0
    request = urllib.request.Request(url, headers={"User-Agent": "stallscope"})  # noqa: S310 - the scheme is checked
    try:
        with _opener().open(request, timeout=_TIMEOUT_S) as answer, target.open("wb") as file:
            while chunk := answer.read(_CHUNK):
                got += len(chunk)
                if got > size:
                    break
                digest.update(chunk)
                file.write(chunk)
    except (urllib.error.URLError, OSError, ValueError) as error:
        target.unlink(missing_ok=True)
        reason = getattr(error, "reason", None) or error
        raise InputRefusedError(f"{url} can't be fetched ({reason})", f"Check the network. {_LOCAL}") from error
    if got != size:
        target.unlink(missing_ok=True)
        than = "more" if got > size else f"{got:,}"
        raise InputRefusedError(f"{url} sent {than} bytes where {size:,} are published", _LOCAL)
    if digest.hexdigest() != sha256:
        target.unlink(missing_ok=True)
        raise InputRefusedError(f"what {url} sent has another checksum than the published file", _LOCAL)


def _check(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _loopback(parts.hostname)):
        return
    raise InputRefusedError(f"{url} isn't an https address", "Set STALLSCOPE_CATALOGUE_HOST to one that is.")


def _loopback(host: str | None) -> bool:
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an address that would be allowed itself."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_CheckedRedirects())


__all__ = ["CatalogueEntry", "CatalogueFile", "Progress", "entries", "entry", "load_dataset"]

Progress = Callable[[float, str], None]


def load_dataset(
    db: Database,
    name: str,
    files: Sequence[Path] = (),
    *,
    dataset: str | None = None,
    host: str | None = None,
    progress: Progress | None = None,
    names: Mapping[Path, str] | None = None,
) -> list[ImportReport]:
    """Load a public data set into the data set of its name, where only the published bytes go.

    Parameters
    ----------
    db : Database
        Where to load.
    name : str
        Name in the catalogue.
    files : sequence of Path
        Local copies, plain or packed, in any order; told apart by content. Without any, the files are downloaded.
    dataset : str, optional
        Name of a data set of the user's own to load into. Only there may the bytes differ from the published ones.
    host : str, optional
        Where to download from; by default that of the settings.
    progress : callable, optional
        Called with a fraction and a sentence; may raise to stop between files.
    names : mapping, optional
        What the user calls a copy, where that is not the name of its path.

    Returns
    -------
    list of ImportReport
        One a file, in the order of loading; files that don't belong to the data set come last, as rejected.

    Raises
    ------
    NotFoundError
        If there is no such data set.
    InputRefusedError
        If a needed file is missing, can't be downloaded, or its checksum differs.
    UsageError
        If `dataset` is the name of a public data set.
    """
    wanted = entry(name)
    own = (dataset or "").strip() or None
    if own is not None and any(own == one.name for one in entries()):
        raise UsageError(f"{own} is the name of a public data set", "Choose a name of your own.")
    say = progress or (lambda _fraction, _sentence: None)
    with ExitStack() as stack:
        if files:
            taken, reports = _recognise(stack, db, wanted, [Path(path) for path in files], own, names or {})
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="download-", dir=_spool(db))))
            taken, reports = _download(wanted, folder, host, say), []
        _check_complete(db, wanted, {file.name for file in taken}, own or name, reports)
        title = f"{wanted.title}, own version" if own else wanted.title
        hints = Hints(dataset=own or name, title=title, licence=wanted.licence, citation=wanted.citation)
        loaded: list[ImportReport] = []
        with _whole(db, loaded):
            for number, file in enumerate(found for found in wanted.files if found in taken):
                path, given, same = taken[file]
                say(0.5 + 0.5 * number / len(taken), f"Loading {file.name}")
                report = import_file(db, path, name=given, hints=hints)
                if not same:
                    warning = f"Its bytes differ from those that were published as {file.name} of {wanted.name}."
                    report = report.model_copy(update={"warnings": [*report.warnings, warning]})
                loaded.append(report)
                if report.status == "rejected" and not file.optional:
                    raise InputRefusedError(
                        f"{file.name} can't be loaded, so nothing of {wanted.name} is: {report.error}",
                        "Check the disk and the file.",
                    )
    say(1.0, f"Loaded {name}")
    return [*loaded, *reports]


@contextmanager
def _whole(db: Database, loaded: Sequence[ImportReport]) -> Iterator[None]:
    """Take out again what a load brought that does not come to its end: a set is there as a whole or not at all."""
    try:
        yield
    except BaseException:
        for report in loaded:
            if report.status == "loaded" and report.source_id is not None:
                remove_source(db, report.source_id)
        raise


def missing(db: Database, wanted: CatalogueEntry, dataset: str | None = None) -> list[str]:
    """Return the needed files of a data set that are not loaded, of one of which a part is there; else nothing.

    A load is all or nothing, but the program may be ended in between.
    """
    there = set(sources.sources(db, Filter(datasets=(dataset or wanted.name,)))["format"])
    needed = [file for file in wanted.files if not file.optional]
    lacking = [file.name for file in needed if file.format not in there]
    return lacking if len(lacking) < len(needed) else []


#: Where each file of the data set lies, what the user calls it, and whether its bytes are the published ones.
_Taken = dict[CatalogueFile, tuple[Path, str, bool]]


def _recognise(
    stack: ExitStack,
    db: Database,
    wanted: CatalogueEntry,
    paths: Sequence[Path],
    own: str | None,
    names: Mapping[Path, str],
) -> tuple[_Taken, list[ImportReport]]:
    taken: _Taken = {}
    refused = []
    for path in paths:
        try:
            found = stack.enter_context(opened_files(path, name=names.get(path), spool=db.spool))
        except StallScopeError as error:
            refused.append(ImportReport(file=names.get(path, path.name), status="rejected", error=error.sentence))
            continue
        for opened in found:
            file, same = _role(wanted, opened)
            if file is not None and not same and own is None:
                raise _other_bytes(wanted, file, opened)
            if file is not None and file not in taken:
                taken[file] = (opened.path, opened.name, same)
                continue
            what = f"it isn't one of the files of {wanted.name}" if file is None else f"{file.name} was given already"
            all_names = ", ".join(known.name for known in wanted.files)
            other = InputRefusedError(what, f"Give copies of {all_names}.", Where(opened.name))
            refused.append(ImportReport(file=opened.name, status="rejected", error=other.sentence))
    return taken, refused


def _other_bytes(wanted: CatalogueEntry, file: CatalogueFile, opened: Opened) -> InputRefusedError:
    return InputRefusedError(
        f"its bytes aren't those that were published as {file.name} of {wanted.name} (sha256 {opened.sha256[:12]}… "
        f"instead of {file.sha256[:12]}…), so its figures would stand under a name that isn't theirs",
        f"Get the file as it was published in {wanted.repository} at commit {wanted.commit[:12]}; or load your own "
        "version as a data set of its own, with `--as NAME`.",
        Where(opened.name),
    )


def _role(wanted: CatalogueEntry, opened: Opened) -> tuple[CatalogueFile | None, bool]:
    """Say which file of the data set this is: by its checksum, else by the format that reads it."""
    for file in wanted.files:
        if file.sha256 == opened.sha256:
            return file, True
    try:
        form = choose(opened).name
    except StallScopeError:
        return None, False
    return next((file for file in wanted.files if file.format == form), None), False


def _download(wanted: CatalogueEntry, folder: Path, host: str | None, say: Progress) -> _Taken:
    if not wanted.downloadable:
        names = ", ".join(file.name for file in wanted.files)
        raise InputRefusedError(
            f"the catalogue has no addresses for the files of {wanted.name}",
            f"Get {names} from the repository {wanted.repository} (commit {wanted.commit}), and give them as copies.",
        )
    taken: _Taken = {}
    for number, file in enumerate(wanted.files):
        if file.shipped is not None:
            taken[file] = (asset("data", *file.shipped.split("/")), file.name, True)
            continue
        if file.path is None:
            continue
        say(0.5 * number / len(wanted.files), f"Downloading {file.name}")
        target = folder / file.name
        fetch(address(wanted.repository, wanted.commit, file.path, host), target, size=file.size, sha256=file.sha256)
        taken[file] = (target, file.name, True)
    return taken


def _check_complete(
    db: Database, wanted: CatalogueEntry, given: set[str], dataset: str, refused: Sequence[ImportReport]
) -> None:
    """A needed file may be missing from the call if an earlier one loaded it."""
    there = set(sources.sources(db, Filter(datasets=(dataset,)))["format"])
    needed = [file for file in wanted.files if not file.optional and file.format not in there]
    missing = [file.name for file in needed if file.name not in given]
    if missing:
        why = "; ".join(str(report.error) for report in refused)
        raise InputRefusedError(
            f"{wanted.name} needs {' and '.join(missing)}, and no given file is that{f' ({why})' if why else ''}",
            "Give it too, with --file.",
        )


def _spool(db: Database) -> Path | None:
    if db.spool is not None:
        db.spool.mkdir(parents=True, exist_ok=True)
    return db.spool
