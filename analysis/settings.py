"""Where StallScope keeps its files and what its limits are, read from the environment."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_PACKAGE = Path(__file__).resolve().parent


class Settings(BaseSettings):
    """Settings; each can be given as an environment variable ``STALLSCOPE_<NAME>``.

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
    api_token : SecretStr, optional
        Who sends it may read and write through the programming interface.
    api_token_file : Path, optional
        File with more tokens, one a line: ``viewer TOKEN`` or ``editor TOKEN``.
    catalogue_host : str
        Where the files of public data sets are fetched from: ``HOST/OWNER/REPOSITORY/COMMIT/PATH``. Give the address of
        a mirror where the network is closed.
    """

    model_config = SettingsConfigDict(env_prefix="STALLSCOPE_", extra="ignore")

    db: Path = Field(default_factory=lambda: user_data_path("stallscope", appauthor=False) / "stallscope.duckdb")
    sample: Literal["on", "off"] = "on"
    memory_limit: str = "4GB"
    max_file_bytes: int = 1 << 30
    max_unpacked_bytes: int = 4 << 30
    max_unpack_ratio: int = 200
    max_files: int = 500
    read_only: bool = False
    roles: Path | None = None
    editors: str = ""
    viewers: str = ""
    api_token: SecretStr | None = None
    api_token_file: Path | None = None
    catalogue_host: str = "https://raw.githubusercontent.com"

    @property
    def spool(self) -> Path:
        """Directory where uploads are spooled; the only one that DuckDB may read."""
        return self.db.parent / "spool"


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the settings of this process, read once."""
    return Settings()


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
