"""Makes certificates for the servers and clients of a test, and the authority that signs them, with `trustme`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from model.errors import ConfigError
from model.extras import install_command

if TYPE_CHECKING:
    import trustme

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"
_OWNER_ONLY = 0o600


def make_certificate(directory: Path, name: str, hosts: list[str], days: int) -> tuple[Path, Path]:
    """Make a certificate with its key, signed by the authority of the directory. Returns both files.

    Raises:
        ConfigError: a host is not a valid name, the files cannot be written, or trustme is not installed.
    """
    if not name or Path(name).name != name or name in ("ca", "ca-key"):
        raise ConfigError(f"--name {name!r}: use the name of a file, without a folder, and not `ca`")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(directory)
        leaf = authority.issue_cert(*hosts, not_after=datetime.now(UTC) + timedelta(days=days))
        cert, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
        # The key is written first: a server that reads both files in between finds that they do not match, and retries.
        _write(key, leaf.private_key_pem.bytes())
        _write(cert, b"".join(each.bytes() for each in leaf.cert_chain_pems))
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"cannot make a certificate for {', '.join(hosts)}: {error}") from error
    return cert, key


def _authority(directory: Path) -> trustme.CA:
    try:
        import trustme
    except ImportError:
        raise ConfigError(install_command("trustme")) from None
    cert, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    if cert.exists():
        return trustme.CA.from_pem(cert.read_bytes(), key.read_bytes())
    authority = trustme.CA()
    _write(key, authority.private_key_pem.bytes())
    _write(cert, authority.cert_pem.bytes())
    return authority


def _write(path: Path, data: bytes) -> None:
    """Replace a file as a whole; only its owner can read it."""
    part = path.with_name(path.name + ".part")
    with open(part, "wb", opener=lambda name, flags: os.open(name, flags | os.O_TRUNC, _OWNER_ONLY)) as file:
        file.write(data)
    os.replace(part, path)
