"""Who may use the programming interface: bearer tokens, and what is open without one."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from analysis.errors import UsageError, Where
from analysis.settings import Settings
from analysis.ui.shell.access import Role

#: Where the programming interface stands on the server.
PREFIX = "/api/v1"

#: A shorter token could be guessed.
MIN_LENGTH = 16


class Refusal(Exception):  # noqa: N818 -- a refusal is no fault
    """An answer that is none.

    Parameters
    ----------
    status : int
        The HTTP status.
    error, cure : str
        What is wrong, and what can be done about it.
    """

    def __init__(self, status: int, error: str, cure: str) -> None:
        super().__init__(error)
        self.status, self.error, self.cure = status, error, cure


@dataclass(frozen=True)
class Tokens:
    """Roles by the hash of a token, so that no token stays in memory or gets into a log.

    Attributes
    ----------
    roles : dict of bytes to Role
        Role of each token, under its SHA-256.
    exposed : bool
        Whether others than this machine can reach the server.
    """

    roles: dict[bytes, Role] = field(default_factory=dict, repr=False)
    exposed: bool = False

    def check(self, header: str | None, *, writes: bool, login: bool) -> None:
        """Let a request pass or refuse it.

        Without a token nothing can be written, and where the server can be reached by others, or readers of the pages
        sign in, nothing can be read either.

        Parameters
        ----------
        header : str or None
            The ``Authorization`` header.
        writes : bool
            Whether the request changes something.
        login : bool
            Whether readers of the pages sign in.

        Raises
        ------
        Refusal
            If it may not pass.
        """
        if not self.roles and (writes or self.exposed or login):
            raise Refusal(
                403,
                "the programming interface is off here: no token is set",
                "Set STALLSCOPE_API_TOKEN or STALLSCOPE_API_TOKEN_FILE where StallScope is started.",
            )
        if not self.roles:
            return
        role = self._role(header)
        if role is Role.NOBODY:
            raise Refusal(401, "no valid token was sent", "Send it as `Authorization: Bearer TOKEN`.")
        if writes and role is not Role.EDITOR:
            raise Refusal(403, "this token is for reading only", "Use an editor's token.")

    def _role(self, header: str | None) -> Role:
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return Role.NOBODY
        given = _hash(token.strip())
        found = Role.NOBODY
        # All of them, in a time that doesn't tell which one came close.
        for known, role in self.roles.items():
            if hmac.compare_digest(known, given):
                found = role
        return found


def tokens(settings: Settings, *, exposed: bool) -> Tokens:
    """Read the tokens of the settings.

    Raises
    ------
    UsageError
        If a token is too short or the file can't be read; the message never holds a token.
    """
    roles: dict[bytes, Role] = {}
    if settings.api_token is not None:
        roles[_hash(_checked(settings.api_token.reveal(), "STALLSCOPE_API_TOKEN"))] = Role.EDITOR
    path = settings.api_token_file
    if path is not None:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                "the file of tokens can't be read", "Check STALLSCOPE_API_TOKEN_FILE.", Where(str(path))
            ) from error
        for number, line in enumerate(lines, start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            place = f"line {number} of {path}"
            role, token = (words[0], words[1]) if len(words) == 2 else ("editor", words[0])
            if len(words) > 2 or role not in ("viewer", "editor"):
                raise UsageError(f"{place} is no token", "Write `viewer TOKEN` or `editor TOKEN` on each line.")
            roles[_hash(_checked(token, place))] = Role(role)
    return Tokens(roles, exposed)


def _checked(token: str, place: str) -> str:
    token = token.strip()
    if len(token) < MIN_LENGTH:
        raise UsageError(
            f"the token of {place} is shorter than {MIN_LENGTH} characters",
            "Make one with `python3 -c 'import secrets; print(secrets.token_urlsafe(32))'`.",
        )
    return token


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
