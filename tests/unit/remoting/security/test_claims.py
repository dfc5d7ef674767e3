from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.access_limits import CLAIM_KEPT_S, MAX_CLAIMS_OF_CONNECTION, MAX_CLAIMS_OF_USER
from model.errors import SystemBusy
from remoting.security.claims import Claims, IdsOfConnection


def test_an_id_belongs_to_its_first_user_as_long_as_a_connection_is_open_and_some_minutes_more() -> None:
    claims = Claims()
    first, second, other = (IdsOfConnection(claims) for _ in range(3))
    assert first.claim("c1", "alice", 0.0)
    assert not other.claim("c1", "bob", 1.0)
    assert second.claim("c1", "alice", 2.0)
    first.release_all(10.0)
    assert not other.claim("c1", "bob", 1_000_000.0)
    second.release_all(1_000_000.0)
    assert not other.claim("c1", "bob", 1_000_000.0 + CLAIM_KEPT_S - 1)
    assert other.claim("c1", "bob", 1_000_000.0 + CLAIM_KEPT_S)
    assert not first.claim("c1", "alice", 2_000_000.0)


def test_an_id_that_is_used_again_is_not_idle_any_more() -> None:
    claims = Claims()
    first, other = IdsOfConnection(claims), IdsOfConnection(claims)
    assert first.claim("c1", "alice", 0.0)
    first.release_all(0.0)
    assert first.claim("c1", "alice", 100.0)
    assert not other.claim("c1", "bob", 100.0 + CLAIM_KEPT_S)


def test_a_user_has_so_many_ids_and_takes_no_room_of_others() -> None:
    claims = Claims()
    for n in range(MAX_CLAIMS_OF_USER):
        one = IdsOfConnection(claims)
        assert one.claim(f"c{n}", "mallory", 0.0)
        one.release_all(0.0)
    one = IdsOfConnection(claims)
    with pytest.raises(SystemBusy, match="20000 client ids"):
        one.claim("one more", "mallory", 2.0)
    assert one.claim("c1", "mallory", 2.0)
    assert IdsOfConnection(claims).claim("one more", "alice", 2.0)
    assert one.claim("later", "mallory", CLAIM_KEPT_S)
    assert len(claims) == MAX_CLAIMS_OF_USER + 1


def test_a_connection_holds_so_many_ids_and_then_not_the_oldest() -> None:
    claims = Claims()
    one, other = IdsOfConnection(claims), IdsOfConnection(claims)
    for n in range(MAX_CLAIMS_OF_CONNECTION + 1):
        assert one.claim(f"c{n}", "alice", 0.0)
    assert "c0" not in one.names
    assert "c1" in one.names
    assert not other.claim("c1", "bob", CLAIM_KEPT_S)
    assert not other.claim("c0", "bob", CLAIM_KEPT_S - 1)
    assert other.claim("c0", "bob", CLAIM_KEPT_S)


def test_an_operator_who_removes_a_user_ends_its_claims() -> None:
    claims = Claims()
    first, other = IdsOfConnection(claims), IdsOfConnection(claims)
    assert first.claim("c1", "alice", 0.0)
    claims.forget("alice")
    assert other.claim("c1", "bob", 0.0)
    first.release_all(0.0)  # its connection is closed later
    assert not IdsOfConnection(claims).claim("c1", "alice", CLAIM_KEPT_S)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["claim", "close", "forget"]),
            st.integers(0, 3),
            st.sampled_from(["a", "b"]),
            st.sampled_from([1.0, CLAIM_KEPT_S]),
        ),
        max_size=40,
    )
)
def test_claims_agree_with_a_list_of_who_uses_what(steps: list[tuple[str, int, str, float]]) -> None:
    claims, now = Claims(), 0.0
    connections = [IdsOfConnection(claims) for _ in range(4)]
    users = ["alice", "alice", "bob", "eve"]
    uses: list[tuple[int, str, float | None]] = []  # connection, id, when it was closed
    for act, n, name, wait_s in steps:
        now += wait_s
        user = users[n]
        if act == "claim":
            others = [until for number, used, until in uses if used == name and users[number] != user]
            may = not any(until is None or now < until + CLAIM_KEPT_S for until in others)
            assert connections[n].claim(name, user, now) == may
            if may:
                uses = [use for use in uses if use[1] != name or users[use[0]] == user]
                uses.append((n, name, None))
        elif act == "close":
            connections[n].release_all(now)
            uses = [(number, used, now if number == n and until is None else until) for number, used, until in uses]
        else:
            claims.forget(user)
            for each in [n for n in range(4) if users[n] == user]:
                connections[each].release_all(now)
            uses = [use for use in uses if users[use[0]] != user]
