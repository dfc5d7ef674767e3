"""Keys: the secret of a client, and its hash that servers keep. Pure.

A key is a user's name and 32 random bytes. Because a program draws it at random, no slow hash has to protect it. Two
numbers are derived from the secret, as in SCRAM (RFC 5802): a server that knows only their hashes can check a proof of
the secret and prove itself, but the contents of its file are not enough to log in.

    key file of a client           orders-service:5f0c...           (name:64 hex digits)
    access file of the servers     key = "rlab1:9d41...:77aa..."    (two hashes)
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from hashlib import sha256

from model.errors import ConfigError
from model.names import check_id

SECRET_BYTES = 32
_HEX = re.compile(r"[0-9a-f]{64}")
_SCHEME = "rlab1"


@dataclass(frozen=True, slots=True)
class KeyHash:
    """The server's part of a key."""

    stored: bytes = field(repr=False)  # hash of the client key, which only the owner of the secret can compute
    server: bytes = field(repr=False)  # proves that the server knows this user

    def __str__(self) -> str:
        """Form of an access file."""
        return f"{_SCHEME}:{self.stored.hex()}:{self.server.hex()}"

    @classmethod
    def parse(cls, text: str) -> KeyHash:
        """Read the form of an access file.

        Raises:
            ConfigError: it has another form; the error does not quote it, because it may be a secret by mistake.
        """
        scheme, _, hashes = text.partition(":")
        stored, _, server = hashes.partition(":")
        if scheme != _SCHEME or not _HEX.fullmatch(stored) or not _HEX.fullmatch(server):
            raise ConfigError(f"a key must be {_SCHEME}:HASH:HASH, as 'rlab key new' prints it")
        return cls(bytes.fromhex(stored), bytes.fromhex(server))


@dataclass(frozen=True, slots=True)
class Key:
    """A client's key; its secret is never shown."""

    user: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse values that cannot be a key.

        Raises:
            ConfigError: the secret has another length.
            InvalidParameter: the user's name is illegal.
        """
        check_user(self.user)
        if len(self.secret) != SECRET_BYTES:
            raise ConfigError(f"the secret of a key must have {SECRET_BYTES} bytes: make one with 'rlab key new'")

    @property
    def client_key(self) -> bytes:
        """The value that the owner of the key proves to know."""
        return hmac.digest(self.secret, b"rlab client key", "sha256")

    def hash(self) -> KeyHash:
        """The part that servers keep."""
        return KeyHash(sha256(self.client_key).digest(), hmac.digest(self.secret, b"rlab server key", "sha256"))

    def text(self) -> str:
        """Form of a key file: the secret itself."""
        return f"{self.user}:{self.secret.hex()}"

    @classmethod
    def parse(cls, text: str, source: str) -> Key:
        """Read the form of a key file; `source` names its origin in errors, which never quote the key.

        Raises:
            ConfigError: it is not one.
        """
        user, _, secret = text.strip().rpartition(":")
        if not _HEX.fullmatch(secret):
            raise ConfigError(f"{source} must hold one key, NAME:SECRET with {2 * SECRET_BYTES} hex digits")
        return cls(user, bytes.fromhex(secret))


def equal_secrets(candidate: str, secret: str) -> bool:
    """Whether a text from a peer is the secret; the time it takes does not depend on where they differ.

    A header of HTTP may hold any byte; bytes that are not UTF-8 appear in the text as half a surrogate pair.
    """
    return hmac.compare_digest(candidate.encode("utf-8", "surrogatepass"), secret.encode())


def check_user(name: str) -> str:
    """Return the name of a user if it is legal.

    Raises:
        InvalidParameter: otherwise.
    """
    return check_id("user name", name)
