from __future__ import annotations

from remoting.security.handshake import (
    checked_session,
    client_proof,
    make_session,
    make_transcript,
    server_proof,
)
from remoting.security.key import Key

KEY, OTHER = Key("alice", b"a" * 32), Key("alice", b"b" * 32)
TRANSCRIPT = make_transcript("alice", "c" * 32, "s" * 32)


def test_both_sides_get_the_same_two_keys_and_each_direction_its_own() -> None:
    session = checked_session(KEY.hash(), client_proof(KEY, TRANSCRIPT), TRANSCRIPT)
    assert session == make_session(KEY.client_key, TRANSCRIPT)
    assert session is not None
    assert session.to_server != session.to_client


def test_a_proof_is_good_for_its_own_key_user_and_nonces_only() -> None:
    proof = client_proof(KEY, TRANSCRIPT)
    assert checked_session(OTHER.hash(), proof, TRANSCRIPT) is None
    for other in (("bob", "c" * 32, "s" * 32), ("alice", "x" * 32, "s" * 32), ("alice", "c" * 32, "x" * 32)):
        assert checked_session(KEY.hash(), proof, make_transcript(*other)) is None
    changed = bytes([proof[0] ^ 1]) + proof[1:]
    assert checked_session(KEY.hash(), changed, TRANSCRIPT) is None


def test_what_a_server_stores_proves_no_client() -> None:
    stolen = KEY.hash()
    for secret in (stolen.stored, stolen.server):
        assert checked_session(KEY.hash(), client_proof(Key("alice", secret), TRANSCRIPT), TRANSCRIPT) is None


def test_a_server_proves_that_it_has_the_hash() -> None:
    assert server_proof(KEY.hash(), TRANSCRIPT) != server_proof(OTHER.hash(), TRANSCRIPT)
