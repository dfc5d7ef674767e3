"""The client's side of the handshake, and the places from which it reads its key.

The client proves that it has the key, the server that it knows the user, and neither sends the key.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from model.errors import ConfigError, NotAuthenticated, RequestCodeNotSupported, make_error
from remoting.codec import MsgpackDecoder
from remoting.command import Command
from remoting.request_code import RequestCode
from remoting.security.handshake import client_proof, make_session, make_transcript, server_proof
from remoting.security.key import Key
from remoting.security.records import RecordDecoder, RecordSigner

if TYPE_CHECKING:
    from remoting.connection import Connection  # needs anyio, which processes of Spark do not have

KEY_FILE, KEY = "RLAB_KEY_FILE", "RLAB_KEY"
"""Variables of the environment: the path of a key file, or the key itself."""
HTTP_KEY_FILE, HTTP_KEY = "RLAB_HTTP_KEY_FILE", "RLAB_HTTP_KEY"
"""Variables of the environment for the key that the HTTP ports of this process ask for."""
CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""Variable of the environment: the directory in which systemd passes secrets to a service."""
_FORBIDDEN_MODE = 0o077
"""Mode bits that a key file must not have."""
_FORBIDDEN_CREDENTIAL_MODE = 0o037
"""Mode bits that a credential must not have. The group may read it: where the file system has access lists, systemd
gives the user of a service an entry in the list, and the mode then shows the list's mask in place of the group's bits.
"""


def read_key(path: Path, environment: Mapping[str, str] = os.environ) -> Key:
    """Read a key file; a credential of systemd counts as owned by the service that received it.

    Raises:
        ConfigError: the file cannot be read, is not a key, or can be read by others than its owner.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"the key file {path} is a directory")
        if status.st_mode & (_FORBIDDEN_CREDENTIAL_MODE if _is_credential(path, environment) else _FORBIDDEN_MODE):
            raise ConfigError(f"the key file {path} is open to others than its owner: chmod 600 {path}")
        return Key.parse(path.read_text(encoding="utf-8"), f"the key file {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the key file {path}: {error}") from error


def read_own_key(environment: Mapping[str, str] = os.environ) -> Key | None:
    """The key in the environment of this process; None if there is none.

    It is read again for each connection, so that a key can be changed while a client runs.

    Raises:
        ConfigError: it cannot be read.
    """
    return _key_of(KEY_FILE, KEY, environment)


def read_http_key(environment: Mapping[str, str] = os.environ) -> Key | None:
    """The key that HTTP ports of this process ask for; None if the environment has none.

    Raises:
        ConfigError: it cannot be read.
    """
    return _key_of(HTTP_KEY_FILE, HTTP_KEY, environment)


def _key_of(file: str, variable: str, environment: Mapping[str, str]) -> Key | None:
    if path := environment.get(file):
        return read_key(Path(path), environment)
    text = environment.get(variable)
    return Key.parse(text, f"the variable {variable}") if text else None


def _is_credential(path: Path, environment: Mapping[str, str]) -> bool:
    folder = environment.get(CREDENTIALS)
    return folder is not None and path.parent == Path(folder)


class ClientHandshake:
    """One handshake without I/O: the headers to send, and the results of the answers."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self._nonce = secrets.token_hex(16)
        self._transcript = b""

    @property
    def challenge(self) -> dict[str, str]:
        """The header of GET_CHALLENGE."""
        return {"user": self._key.user, "nonce": self._nonce}

    def proof(self, answer: Command) -> dict[str, str]:
        """The header of AUTHENTICATE, from the answer to the first request.

        Raises:
            RlabError: the server refused.
        """
        header = _accepted(answer)
        self._transcript = make_transcript(self._key.user, self._nonce, str(header.get("nonce")))
        return {"proof": client_proof(self._key, self._transcript).hex()}

    def finish(self, answer: Command) -> tuple[RecordSigner, RecordDecoder]:
        """The two ends of the signed connection, from the answer to the second request.

        Raises:
            RlabError: the server refused, or does not know this user, so it does not belong to the cluster.
        """
        header = _accepted(answer)
        if header.get("proof") != server_proof(self._key.hash(), self._transcript).hex():
            raise NotAuthenticated("the server did not prove that it knows this user: is it one of this cluster?")
        session = make_session(self._key.client_key, self._transcript)
        return RecordSigner(session.to_server), RecordDecoder(session.to_client, MsgpackDecoder)


def _accepted(answer: Command) -> dict[str, object]:
    if answer.code:
        error = make_error(answer.code, str(answer.header.get("remark", "no remark")))
        if isinstance(error, RequestCodeNotSupported):
            raise NotAuthenticated("this client has a key, and the server has no access control: is it the right one?")
        raise error
    return answer.header


async def log_in(connection: Connection, key: Key, timeout_s: float) -> None:
    """Prove a key over a new connection; all later bytes on it are signed.

    Raises:
        RlabError: the server refused, could not prove itself, or did not answer.

    Cancellation: the connection has to be closed.
    """
    handshake = ClientHandshake(key)
    answer = await connection.request(RequestCode.GET_CHALLENGE, handshake.challenge, None, timeout_s)
    answer = await connection.request(RequestCode.AUTHENTICATE, handshake.proof(answer), None, timeout_s)
    signer, decoder = handshake.finish(answer)
    connection.protect(signer.sign, decoder)
