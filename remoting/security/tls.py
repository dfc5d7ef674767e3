"""TLS of servers: certificate and key from files, read again when they change.

With `client_ca`, each client needs a certificate that this authority has signed. Open connections keep their context:
new files apply to later connections.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

import anyio

from model.access_limits import ACCESS_RELOAD_S
from model.errors import ConfigError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a server, in PEM; `client_ca` makes it ask each client for a certificate (mutual TLS)."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class ServerTls:
    """The certificates of a server. Raises ConfigError: a file cannot be read, or key and certificate do not match."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A resumed session of TLS 1.3 would not show its certificate again.
        self.context.num_tickets = 0
        if files.client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
        self._stamp = self._stamps()
        self._load()

    def reload(self) -> bool:
        """Read the files again if they have changed; returns whether they have. Raises ConfigError as above."""
        stamp = self._stamps()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        # In a separate context first: half of a new pair must not replace half of the old one.
        _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._files)
        self._load()
        return True

    def _load(self) -> None:
        _load(self.context, self._files)

    def _stamps(self) -> list[tuple[int, int, int]]:
        try:
            found = [path.stat() for path in _paths(self._files)]
        except OSError as error:
            raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in found]

    async def keep_current(self) -> None:
        """Reload when the files change; files that cannot be read change nothing. Cancellation: harmless."""
        while True:
            await anyio.sleep(ACCESS_RELOAD_S)
            try:
                if self.reload():
                    logger.warning("%s: reloaded, for connections from now on", self._files.cert)
            except ConfigError as error:
                logger.error("the certificates were not reloaded, the previous ones stay in use: %s", error)


def _paths(files: TlsFiles) -> list[Path]:
    return [files.cert, files.key, *([files.client_ca] if files.client_ca is not None else [])]


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.cert, files.key)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use the certificate {files.cert} with the key {files.key}: {error}") from error
