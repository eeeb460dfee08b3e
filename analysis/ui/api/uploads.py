"""Takes files over HTTP: to the spool while their size is watched, then loaded by the runner like those of a page."""

from __future__ import annotations

from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from analysis.errors import InputRefusedError
from analysis.ingest.contract.format import Hints
from analysis.reference import gpus
from analysis.settings import get_settings
from analysis.ui.api.questions import ImportQuestion
from analysis.ui.api.reading import from_pairs, limited
from analysis.ui.api.tokens import Refusal
from analysis.ui.parts.upload import KIND, load_all
from analysis.ui.shell.resources import database, jobs
from analysis.ui.shell.spool import Spooled, store

#: Uploads that are received or loaded at a time; each may be as large as the settings allow.
MOST_AT_ONCE = 4

#: Seconds between two looks at whether the files are loaded.
_POLL = 0.1

#: What the fields and the frame of an upload may add to the files.
_FRAME = 1 << 20

_under_way = 0


async def answer(request: Request) -> list[dict[str, Any]]:
    """Receive files, load them, and return the account of each.

    Raises
    ------
    Refusal
        If the request is malformed or too large, if too many are under way, or if no file could be loaded.
    """
    global _under_way
    if _under_way >= MOST_AT_ONCE:
        raise Refusal(429, "other uploads are under way", "Send it again in a moment.")
    _under_way += 1
    try:
        return await _receive(request)
    finally:
        _under_way -= 1


async def _receive(request: Request) -> list[dict[str, Any]]:
    settings = get_settings()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "multipart/form-data":
        raise Refusal(400, "the body is no form with files", "Send it as `curl -F file=@FILE` does.")
    parser = MultiPartParser(
        request.headers,
        limited(request, settings.max_file_bytes + _FRAME),
        max_files=settings.max_files,
        max_fields=len(ImportQuestion.model_fields) + 8,
        max_part_size=4096,
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError, AssertionError) as error:
        told = getattr(error, "message", "") or "it can't be taken apart"
        if "Too many files" in told:
            most = f"Send at most {settings.max_files:,}, or raise STALLSCOPE_MAX_FILES."
            raise Refusal(413, "there are too many files in one request", most) from error
        if "exceeded maximum size" in told:
            raise Refusal(413, "a field is longer than 4,096 bytes", "Send shorter names; files as files.") from error
        raise Refusal(400, f"the form is malformed: {told[:200]}", "Send it as `curl -F file=@FILE` does.") from error
    try:
        hints, files = _parts(form)
        spooled = await run_in_threadpool(_spool, files)
    finally:
        await form.close()
    return await _load(request, hints, spooled)


def _parts(form: FormData) -> tuple[Hints, list[UploadFile]]:
    pairs: list[tuple[str, str]] = []
    files: list[UploadFile] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if name != "file":
                raise Refusal(400, f"{name[:80]} holds a file", "Name every part that holds a file `file`.")
            files.append(value)
        else:
            pairs.append((name, value))
    asked = from_pairs(ImportQuestion, pairs)
    if not isinstance(asked, ImportQuestion) or not files:
        raise Refusal(400, "there is no file in it", "Send at least one, as `curl -F file=@FILE` does.")
    gpu = None if asked.gpu is None else gpus.canonical(asked.gpu)
    return Hints(workload=asked.workload, gpu=gpu, dataset=asked.dataset), files


def _spool(files: list[UploadFile]) -> list[Spooled]:
    kept: list[Spooled] = []
    try:
        for file in files:
            # A name is only ever shown; where the bytes lie is the server's own choice.
            name = "".join(character if character.isprintable() else " " for character in file.filename or "")
            kept.append(store(file.file, name.strip()[:255] or "upload", hashed=False))
    except InputRefusedError as error:
        for item in kept:
            item.discard()
        raise Refusal(413, error.what, error.cure) from error
    return kept


async def _load(request: Request, hints: Hints, files: list[Spooled]) -> list[dict[str, Any]]:
    """Queue the files behind whatever is being loaded, and wait for their turn; nobody there to tell, nothing is done.

    A queued load whose client left never starts, one that runs ends, and the file it was at is not loaded.
    """

    def submit() -> str:
        opened, work = database(), [(file, hints) for file in files]
        request = {"dataset": hints.dataset, "files": [file.name for file in files], "from": "api"}
        return jobs().submit(KIND, request, lambda progress: load_all(opened, work, progress), lane="load")

    job = await run_in_threadpool(submit)
    while not (status := jobs().status(job)).finished:
        if await request.is_disconnected():
            jobs().cancel(job)
        await anyio.sleep(_POLL)
    for file in files:
        # A load that never started has left them.
        file.discard()
    if status.result is None:
        raise Refusal(422, status.message.rstrip("."), "Send the files again.")
    reports: list[dict[str, Any]] = status.result["reports"]
    if not any(report["status"] in ("loaded", "duplicate") for report in reports):
        first: dict[str, Any] = next((report["report"] for report in reports if report["report"]), {})
        what = first.get("what") or next((report["error"] for report in reports), None) or "nothing was loaded"
        raise Refusal(422, str(what), str(first.get("cure") or "Export the file again."))
    return reports
