"""Commands that compare predictors: evaluate, folds, rank."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
