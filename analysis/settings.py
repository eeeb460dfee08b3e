"""Where StallScope keeps its files and what its limits are, read from the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from analysis.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent
_PREFIX = "STALLSCOPE_"


class Secret:
    """A text that is used and never shown: neither printed, nor part of a record of the log or of a dictionary."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__


def _default_db() -> Path:
    return user_data_path("stallscope", appauthor=False) / "stallscope.duckdb"


@dataclass(frozen=True)
class Settings:
    """Settings; each can be given as an environment variable ``STALLSCOPE_<NAME>``, see `from_environment`.

    Attributes
    ----------
    db : Path
        The DuckDB file. By default in the user's data directory, never inside a checkout.
    sample : {"on", "off"}
        Whether a first start on an empty database loads the simulated sample.
    memory_limit : str
        DuckDB's memory limit, in DuckDB's own notation.
    max_file_bytes, max_unpacked_bytes, max_unpack_ratio : int
        Limits on uploads: bytes of a file, bytes after unpacking, and their ratio.
    max_files : int
        Most files of one upload.
    read_only : bool
        Whether the server opens the database for reading only.
    roles : Path, optional
        TOML file with two lists of e-mail addresses, ``editors`` and ``viewers``; read again when it changes.
    editors, viewers : str
        More addresses, separated by commas.
    api_token : Secret, optional
        Who sends it may read and write through the programming interface.
    api_token_file : Path, optional
        File with more tokens, one a line: ``viewer TOKEN`` or ``editor TOKEN``.
    limit : float
        Largest slowdown that a job may pay where nobody says otherwise; every verdict is at a limit.
    share_from, dont_up_to : float
        Probability of the limit in percent from which on a prediction says share, and up to which it says don't.
    catalogue_host : str
        Where the files of public data sets are fetched from: ``HOST/OWNER/REPOSITORY/COMMIT/PATH``. Give the address of
        a mirror where the network is closed.
    """

    db: Path = field(default_factory=_default_db)
    sample: str = "on"
    memory_limit: str = "4GB"
    max_file_bytes: int = 1 << 30
    max_unpacked_bytes: int = 4 << 30
    max_unpack_ratio: int = 200
    max_files: int = 500
    read_only: bool = False
    roles: Path | None = None
    editors: str = ""
    viewers: str = ""
    api_token: Secret | None = None
    api_token_file: Path | None = None
    limit: float = 1.2
    share_from: float = 80.0
    dont_up_to: float = 20.0
    catalogue_host: str = "https://raw.githubusercontent.com"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from environment variables; an empty one counts as not given.

        Raises
        ------
        UsageError
            If a value is none that the setting can have.
        """
        given = os.environ if environment is None else environment
        read: dict[str, Any] = {}
        for one in fields(cls):
            name = f"{_PREFIX}{one.name.upper()}"
            text = given.get(name, "").strip()
            if text:
                reader, wanted = _READERS[one.name]
                try:
                    read[one.name] = reader(text)
                except (KeyError, ValueError) as error:
                    shown = "what it holds" if one.name == "api_token" else repr(text)
                    raise UsageError(f"the environment variable {name} can't be {shown}", f"Give {wanted}.") from error
        found = cls(**read)
        if not found.dont_up_to < found.share_from:
            raise UsageError(
                f"a prediction can't say don't up to {found.dont_up_to:g} % and share from {found.share_from:g} % on",
                f"Give {_PREFIX}DONT_UP_TO a smaller value than {_PREFIX}SHARE_FROM.",
            )
        return found

    @property
    def spool(self) -> Path:
        """Directory where uploads are spooled; the only one that DuckDB may read."""
        return self.db.parent / "spool"


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _slowdown(text: str) -> float:
    number = float(text)
    if not 1 <= number <= 1000:
        raise ValueError(text)
    return number


def _percent(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 100:
        raise ValueError(text)
    return number


_ON = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off"), False)}
_COUNT = (_whole, "a whole number of 1 or more")
_FILE = (Path, "the path of a file")
_TEXT = (str, "a text")

#: How each setting is read, and what it may be.
_READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "db": _FILE,
    "sample": ({"on": "on", "off": "off"}.__getitem__, "on or off"),
    "memory_limit": (str, "a size such as 4GB"),
    "max_file_bytes": _COUNT,
    "max_unpacked_bytes": _COUNT,
    "max_unpack_ratio": _COUNT,
    "max_files": _COUNT,
    "read_only": (lambda text: _ON[text.lower()], "true or false"),
    "roles": _FILE,
    "editors": _TEXT,
    "viewers": _TEXT,
    "api_token": (Secret, "a token"),
    "api_token_file": _FILE,
    "limit": (_slowdown, "a slowdown of 1 or more, such as 1.2"),
    "share_from": (_percent, "a percentage from 0 to 100"),
    "dont_up_to": (_percent, "a percentage from 0 to 100"),
    "catalogue_host": _TEXT,
}


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the settings of this process, read once."""
    return Settings.from_environment()


def asset(*parts: str) -> Path:
    """Find a file that ships with StallScope, in a checkout or in an installed wheel.

    Parameters
    ----------
    *parts : str
        Path below the project's top level, such as ``asset("data", "gpus.csv")``.

    Returns
    -------
    Path
        The file or directory.

    Raises
    ------
    FileNotFoundError
        If neither the checkout nor the wheel holds it.
    """
    for root in (_PACKAGE / "_bundle", _PACKAGE.parent):
        candidate = root.joinpath(*parts)
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"{'/'.join(parts)} does not ship with this installation of StallScope")
