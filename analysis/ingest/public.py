"""The public data sets that the catalogue names: where they were published, and by which bytes they are known."""

from __future__ import annotations

import tomllib
from functools import lru_cache

from pydantic import BaseModel, ConfigDict, computed_field

from analysis.errors import NotFoundError
from analysis.settings import asset


class CatalogueFile(BaseModel):
    """One file of a public data set.

    Attributes
    ----------
    name : str
        What it is called here.
    format : str
        Short name of the format that reads it.
    sha256, size : str and int
        Of the published bytes.
    path : str or None
        Where it lies in the repository; None where only local copies can be loaded.
    shipped : str or None
        Where it lies below ``data``, for data sets that come with StallScope.
    optional : bool
        Whether the data set can do without it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    format: str
    sha256: str
    size: int
    path: str | None = None
    shipped: str | None = None
    optional: bool = False


class CatalogueEntry(BaseModel):
    """A public data set.

    Attributes
    ----------
    name, title, about : str
        The name under which it is loaded, and what it is.
    gpus, mechanisms : tuple of str
        What it was measured on, and under.
    licence, citation : str
        As the authors state them.
    repository, commit : str
        Where it was published; the commit pins the bytes.
    files : tuple of CatalogueFile
        In the order in which they are loaded.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    about: str
    gpus: tuple[str, ...]
    mechanisms: tuple[str, ...]
    licence: str
    citation: str
    repository: str
    commit: str
    files: tuple[CatalogueFile, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def downloadable(self) -> bool:
        """Whether every needed file has an address, or is there already."""
        return all(file.path or file.shipped for file in self.files if not file.optional)


@lru_cache(maxsize=1)
def entries() -> list[CatalogueEntry]:
    """Return the public data sets, in the catalogue's order."""
    content = tomllib.loads(asset("data", "catalogue.toml").read_text(encoding="utf-8"))
    return [CatalogueEntry.model_validate(item) for item in content["dataset"]]


def entry(name: str) -> CatalogueEntry:
    """Return one data set.

    Raises
    ------
    NotFoundError
        With the names that there are.
    """
    for candidate in entries():
        if candidate.name == name:
            return candidate
    there = ", ".join(candidate.name for candidate in entries())
    raise NotFoundError(f"there is no public data set {name!r} (there are {there})", "Choose one of these names.")


def foreign(dataset: str, sha256: str) -> bool:
    """Say whether a file in a public data set is none of those that were published under its name.

    Parameters
    ----------
    dataset : str
        Name of a data set, public or not.
    sha256 : str
        Hash of the file's plain bytes.
    """
    public = next((candidate for candidate in entries() if candidate.name == dataset), None)
    return public is not None and all(file.sha256 != sha256 for file in public.files)
