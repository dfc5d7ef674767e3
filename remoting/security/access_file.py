"""The access file of a server on disk, which is read again when it has changed."""

from __future__ import annotations

from pathlib import Path

from model.errors import ConfigError
from remoting.security.policy import Policy, parse_policy


class AccessFile:
    """An access file on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: str | None = None

    def changed(self) -> Policy | None:
        """The policy if it is another one than last time.

        Raises:
            ConfigError: it cannot be read, or is malformed. The next call tries again only if it has changed.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the access file {self.path}: {error}") from error
        if text == self._read:
            return None
        self._read = text
        try:
            return parse_policy(text)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
