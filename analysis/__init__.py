"""StallScope says which training jobs can share a GPU, and what each of them will pay for it."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("stallscope")
except PackageNotFoundError:  # run from a bare checkout
    __version__ = "0+unknown"

__all__ = ["__version__"]
