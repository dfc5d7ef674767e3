"""The access file of a server on disk, which is read again when it has changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from model.errors import ConfigError
from remoting.security.policy import Policy, parse_policy


class AccessFile:
    """An access file on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: str | None = None
        self._is_open = False

    def changed(self) -> Policy | None:
        """The policy if it has changed since the last call.

        Raises:
            ConfigError: the file cannot be read, is malformed, or any user of the machine may write it. The next call
                tries again only if it has changed.
        """
        try:
            with self.path.open(encoding="utf-8") as file:
                mode, text = os.fstat(file.fileno()).st_mode, file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the access file {self.path}: {error}") from error
        was_open, self._is_open = self._is_open, stat.S_ISREG(mode) and bool(mode & stat.S_IWOTH)
        if self._is_open and not was_open:
            raise ConfigError(
                f"everybody on this machine may write the access file {self.path}, and so become any user: "
                f"chmod o-w {self.path}"
            )
        if self._is_open or text == self._read:
            return None
        self._read = text
        try:
            return parse_policy(text)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
