"""Fetches one published file: only over https, no larger than stated, and only if its checksum is the stated one."""

from __future__ import annotations

import hashlib
import ipaddress
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any

from analysis.errors import InputRefusedError
from analysis.settings import get_settings

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
