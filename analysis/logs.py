"""Where records of the log go, and what they hold."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logs(*, verbose: bool) -> None:
    """Send structlog's records to standard error, from warnings on or all of them."""
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
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if verbose else logging.WARNING),
        # Looked up at every record: who runs a command inside a larger program may replace standard error.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.DEBUG if verbose else logging.WARNING, stream=sys.stderr, force=True)
