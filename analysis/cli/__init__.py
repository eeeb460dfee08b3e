"""The command line: the same engine as the pages, for scripts.

Exit codes: 0 done, 1 an input was refused, 2 wrong usage, 3 a threshold given by the user was crossed. With ``--json``
standard output holds exactly one JSON document, on refusal too; logs and progress go to standard error.
"""

from analysis.cli.main import app

__all__ = ["app"]
