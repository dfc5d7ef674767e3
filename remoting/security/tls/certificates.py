"""TLS of servers: certificate and key from files, read again when they change, or made in memory.

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
from model.extras import install_command

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
        self.context = _server_context()
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
            statuses = [path.stat() for path in _paths(self._files)]
        except OSError as error:
            raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from error
        return [(each.st_mtime_ns, each.st_size, each.st_ino) for each in statuses]

    async def keep_current(self) -> None:
        """Reload when the files change; files that cannot be read change nothing. Cancellation: harmless."""
        while True:
            await anyio.sleep(ACCESS_RELOAD_S)
            try:
                if self.reload():
                    logger.warning("%s: reloaded, for connections from now on", self._files.cert)
            except ConfigError as error:
                logger.error("the certificates were not reloaded, the previous ones stay in use: %s", error)


def self_signed_context() -> ssl.SSLContext:
    """The context of a server with a new certificate of this machine, which no client can check. Blocking: 0.2 s.

    Raises:
        ConfigError: the package that makes it is not installed.
    """
    try:
        import trustme  # noqa: PLC0415 - it takes a tenth of a second, and most servers never need it
    except ImportError:
        raise ConfigError(f"no certificate can be made: {install_command('trustme')}") from None
    context = _server_context()
    trustme.CA().issue_cert("localhost", "127.0.0.1", "::1").configure_cert(context)
    return context


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A resumed session of TLS 1.3 would not show its certificate again.
    context.num_tickets = 0
    return context


def _paths(files: TlsFiles) -> list[Path]:
    return [files.cert, files.key, *([files.client_ca] if files.client_ca is not None else [])]


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.cert, files.key)
        if files.client_ca is not None:
            context.load_verify_locations(files.client_ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use the certificate {files.cert} with the key {files.key}: {error}") from error
