from __future__ import annotations

import pytest

from model.access_limits import CLAIM_KEPT_S, MAX_CLAIMS_OF_USER
from model.errors import SystemBusy
from remoting.security.claims import Claims


def test_an_id_belongs_to_whoever_used_it_first_until_that_user_is_silent() -> None:
    claims = Claims()
    assert claims.claim("c1", "alice", 0.0)
    assert not claims.claim("c1", "bob", 1.0)
    assert claims.claim("c1", "alice", 100.0)
    assert not claims.claim("c1", "bob", 100.0 + CLAIM_KEPT_S - 1)
    assert claims.claim("c1", "bob", 100.0 + CLAIM_KEPT_S)
    assert claims.owner("c1") == "bob"
    assert not claims.claim("c1", "alice", 100.0 + CLAIM_KEPT_S)


def test_a_user_has_so_many_ids_and_takes_no_room_of_others() -> None:
    claims = Claims()
    for n in range(MAX_CLAIMS_OF_USER):
        assert claims.claim(f"c{n}", "mallory", float(n == 0))
    with pytest.raises(SystemBusy, match="20000 client ids"):
        claims.claim("one more", "mallory", 2.0)
    assert claims.claim("c1", "mallory", 2.0)
    assert claims.claim("one more", "alice", 2.0)
    assert claims.claim("later", "mallory", CLAIM_KEPT_S + 1.0)
    assert len(claims) == MAX_CLAIMS_OF_USER + 1
