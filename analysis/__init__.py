"""StallScope says which training jobs can share a GPU, and what each of them will pay for it."""

from typing import Any

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    """Return the version, looked up when it is asked for: reading the package's metadata costs each start 30 ms."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stallscope")
    except PackageNotFoundError:  # run from a bare checkout
        return "0+unknown"
