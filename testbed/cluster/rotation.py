"""Keys and certificates of a test cluster; replaces them while the cluster runs."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

from remoting.security.key import SECRET_BYTES, Key
from remoting.security.login import KEY_FILE
from remoting.security.tls.trust import TLS_CA
from testbed.cluster.certificates import AUTHORITY, make_certificate

RIGHTS = {
    "servers": 'brokers = ["broker-*"]\nadmin = true\nconsume = ["SYS_TRACE"]\n',
    "clients": 'produce = ["*"]\nconsume = ["*"]\ngroups = ["*"]\n',
}


class Secrets:
    """The files with the keys and certificates of a run; every process reads them again when they change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.access = folder / "access.toml"
        self.old_keys: list[Key] = []
        self.cert, self.key = make_certificate(folder, "server", ["127.0.0.1"], 2)
        self._keys = {user: self._new_key(user) for user in RIGHTS}
        self._write_access(self._keys)
        for key in self._keys.values():
            self._write(self.key_file(key.user), key.text())

    @staticmethod
    def _new_key(user: str) -> Key:
        return Key(user, secrets.token_bytes(SECRET_BYTES))

    def key_file(self, user: str) -> Path:
        """The file with the key of a user."""
        return self.folder / f"{user}.key"

    def act_as(self, user: str, *, tls: bool = True) -> None:
        """Set the key of a user in the environment, for this process and for the processes that it starts later."""
        os.environ[KEY_FILE] = str(self.key_file(user))
        if tls:
            os.environ[TLS_CA] = str(self.folder / AUTHORITY)

    def _write(self, path: Path, text: str) -> None:
        part = path.with_suffix(".part")
        part.touch(mode=0o600)
        part.write_text(text, encoding="utf-8")
        part.replace(path)

    def _write_access(self, *sets: dict[str, Key]) -> None:
        tables = []
        for user, rights in RIGHTS.items():
            hashes = ", ".join(f'"{keys[user].hash()}"' for keys in sets)
            tables.append(f"[users.{user}]\nkeys = [{hashes}]\n{rights}")
        self._write(self.access, "\n".join(tables))

    async def rotate(self, files_are_read: Callable[[], Awaitable[None]]) -> None:
        """Replace the certificate and all keys as in docs/security.md, and wait until the files are read again."""
        make_certificate(self.folder, "server", ["127.0.0.1"], 2)
        new = {user: self._new_key(user) for user in RIGHTS}
        self._write_access(new, self._keys)
        await files_are_read()
        for user, key in new.items():
            self._write(self.key_file(user), key.text())
        await files_are_read()
        self._write_access(new)
        self.old_keys += self._keys.values()
        self._keys = new
