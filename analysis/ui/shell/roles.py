"""Who may read and who may write, by e-mail address: from the settings and from a file that can change meanwhile."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from analysis.errors import UsageError, Where
from analysis.settings import Settings, get_settings


class Role(StrEnum):
    """What someone may do."""

    NOBODY = "nobody"
    VIEWER = "viewer"
    EDITOR = "editor"


@dataclass(frozen=True)
class Roles:
    """Addresses, in lower case; ``*@example.org`` means all of a domain and ``*`` everybody who can sign in."""

    editors: frozenset[str]
    viewers: frozenset[str]

    def of(self, email: str | None) -> Role:
        """Return the role of an address; one that is not listed has none."""
        address = (email or "").strip().lower()
        if "@" not in address:
            return Role.NOBODY
        meant = {address, f"*{address[address.rindex('@') :]}", "*"}
        if meant & self.editors:
            return Role.EDITOR
        return Role.VIEWER if meant & self.viewers else Role.NOBODY


def current() -> Roles:
    """Return the roles as they are now.

    Raises
    ------
    UsageError
        If the file of roles can't be read: better nobody gets in than the wrong people do.
    """
    settings = get_settings()
    named = _file(settings.roles) if settings.roles is not None else Roles(frozenset(), frozenset())
    return Roles(named.editors | _listed(settings.editors), named.viewers | _listed(settings.viewers))


def anybody_named(settings: Settings) -> bool:
    """Say whether the settings name anyone who may sign in."""
    return bool(settings.roles or settings.editors.strip() or settings.viewers.strip())


def _listed(text: str) -> frozenset[str]:
    return _addresses(text.split(","))


def _addresses(given: Iterable[str]) -> frozenset[str]:
    return frozenset(address for one in given if (address := one.strip().lower()))


def _file(path: Path) -> Roles:
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise UsageError(
            f"the file of roles can't be read: {error.strerror or error}", "Check STALLSCOPE_ROLES.", Where(str(path))
        ) from error


@lru_cache(maxsize=4)
def _read(path: Path, _changed: int, _size: int) -> Roles:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the file of roles is no TOML: {error}", "Correct it.", Where(str(path))) from error
    unknown = set(content) - {"editors", "viewers"}
    lists = [content.get("editors", []), content.get("viewers", [])]
    if unknown or not all(isinstance(one, list) and all(isinstance(item, str) for item in one) for one in lists):
        raise UsageError(
            "the file of roles holds something else than the lists editors and viewers",
            'Write editors = ["ada@example.org"] and viewers = ["*@example.org"].',
            Where(str(path)),
        )
    return Roles(_addresses(lists[0]), _addresses(lists[1]))
