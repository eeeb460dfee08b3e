"""Where records of the log go, and what they hold.

structlog is imported with the first record: it brings rich, and a command that has nothing to log need not wait for it.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Any

_LEVEL = logging.WARNING
_CONFIGURED = False


def configure_logs(*, verbose: bool) -> None:
    """Send records to standard error, from warnings on or all of them."""
    global _LEVEL, _CONFIGURED
    _LEVEL, _CONFIGURED = logging.DEBUG if verbose else logging.WARNING, False
    logging.basicConfig(level=_LEVEL, stream=sys.stderr, force=True)


@dataclass(frozen=True)
class Logger:
    """Writes records under a name: what happened, and values by name.

    Attributes
    ----------
    name : str
        The module that writes.
    """

    name: str

    def warning(self, event: str, **values: Any) -> None:
        """Record what a person should know."""
        _structlog(self.name).warning(event, **values)

    def error(self, event: str, **values: Any) -> None:
        """Record what went wrong."""
        _structlog(self.name).error(event, **values)

    def exception(self, event: str, **values: Any) -> None:
        """Record what went wrong with the exception that is being handled, without the values of variables."""
        _structlog(self.name).exception(event, **values)


def get_logger(name: str) -> Logger:
    """Return the logger of a module."""
    return Logger(name)


def _structlog(name: str) -> Any:
    global _CONFIGURED
    import structlog

    if not _CONFIGURED and not structlog.is_configured():
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="%H:%M:%S"),
                # Without the values of variables, which a log must not hold: tokens, and what users' files say.
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
                ),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_LEVEL),
            # Looked up at every record: who runs a command inside a larger program may replace standard error.
            logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
            cache_logger_on_first_use=False,
        )
    _CONFIGURED = True
    return structlog.get_logger(name)
