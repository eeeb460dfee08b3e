"""Errors named for the situation a user is in.

Every error carries what happened, where, and the cure, so that a page and the command line can show the same sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """A place in a user's file.

    Parameters
    ----------
    file : str, optional
        Name of the file as the user knows it.
    line : int, optional
        Line number, counted from 1.
    column : str, optional
        Column name in the file's header.
    """

    file: str | None = None
    line: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        parts = [
            self.file,
            f"line {self.line}" if self.line is not None else None,
            f"column {self.column}" if self.column else None,
        ]
        return ", ".join(part for part in parts if part)


class StallScopeError(Exception):
    """Base of all errors that are meant for the user's eyes.

    Parameters
    ----------
    what : str
        What happened, as one clause without a full stop.
    cure : str
        What the user can do about it.
    where : Where, optional
        File, line and column.
    """

    def __init__(self, what: str, cure: str, where: Where | None = None) -> None:
        self.what = what
        self.cure = cure
        self.where = where or Where()
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """The error as one line: where, what and the cure."""
        place = str(self.where)
        head = f"{place}: {self.what}" if place else self.what
        return f"{head.rstrip('.')}. {self.cure}".strip()


class InputRefusedError(StallScopeError):
    """A file can't be read as anything StallScope knows; nothing of it was loaded."""


class NotFoundError(StallScopeError):
    """A name (data set, workload, GPU, model, source) is not in the database."""


class NotEnoughDataError(StallScopeError):
    """The data can't carry the answer that was asked for."""


class DatabaseBusyError(StallScopeError):
    """Another process holds the database file."""


class DatabaseVersionError(StallScopeError):
    """The database was written by a newer StallScope."""


class NotAllowedError(StallScopeError):
    """Something would be changed by someone who may only read, or where nothing may be changed."""


class ModelRefusedError(StallScopeError):
    """A model file is damaged, of another schema, or holds types that are not allowed."""


class UsageError(StallScopeError):
    """The request contradicts itself or names an unknown option."""


class CancelledError(StallScopeError):
    """The user stopped a job."""
