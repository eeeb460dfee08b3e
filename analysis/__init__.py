"""StallScope says which training jobs can share a GPU, and what each of them will pay for it.

From Python, `load` reads files and `open` opens a database; both return a `Session` to ask.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.notebook import Answer, Session, load, open

__all__ = ["Answer", "Session", "__version__", "load", "open"]


def __getattr__(name: str) -> Any:
    """Return what is asked for, looked up then: the engine takes a second to import, the version 30 ms."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("stallscope")
        except PackageNotFoundError:  # run from a bare checkout
            return "0+unknown"
    if name in __all__:
        return getattr(import_module(f"{__name__}.notebook"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
