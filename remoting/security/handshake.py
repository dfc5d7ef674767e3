"""The handshake: client and server prove to each other that they know a key, and both get session keys. Pure.

    client -> server   GET_CHALLENGE   user, nonce of the client
    server -> client                   nonce of the server
    client -> server   AUTHENTICATE    proof of the client
    server -> client                   proof of the server; all later bytes are signed (`records.py`)

Both proofs and both session keys are computed over the *transcript*: the user and both nonces. So an attacker who has
recorded or relayed a proof cannot use it on another connection. This is SCRAM-SHA-256 (RFC 7677) without its salt and
its many rounds, which are for passwords. A relay between the two can forward the handshake, but gets no session key
from it.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import NamedTuple

from remoting.security.key import Key, KeyHash

NONCE_CHARS = 32
PROOF_CHARS = 64


class Session(NamedTuple):
    """The keys that sign the two directions of one connection."""

    to_server: bytes
    to_client: bytes


def make_transcript(user: str, client_nonce: str, server_nonce: str) -> bytes:
    """The bytes over which both sides prove their keys."""
    return "\0".join(("rlab 1", user, client_nonce, server_nonce)).encode()


def client_proof(key: Key, transcript: bytes) -> bytes:
    """The proof of a client."""
    client_key = key.client_key
    return _xor(client_key, hmac.digest(sha256(client_key).digest(), transcript, "sha256"))


def checked_session(key: KeyHash, proof: bytes, transcript: bytes) -> Session | None:
    """The session of a client whose proof is right; else None."""
    client_key = _xor(proof, hmac.digest(key.stored, transcript, "sha256"))
    if not hmac.compare_digest(sha256(client_key).digest(), key.stored):
        return None
    return make_session(client_key, transcript)


def server_proof(key: KeyHash, transcript: bytes) -> bytes:
    """The proof of a server that it has this hash, and so is one of the cluster."""
    return hmac.digest(key.server, transcript, "sha256")


def make_session(client_key: bytes, transcript: bytes) -> Session:
    """The session of both sides."""
    return Session(
        hmac.digest(client_key, b"to server" + transcript, "sha256"),
        hmac.digest(client_key, b"to client" + transcript, "sha256"),
    )


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
