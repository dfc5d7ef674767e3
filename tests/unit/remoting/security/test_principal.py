from __future__ import annotations

import pytest

from model.access_limits import MAX_REMEMBERED_PERMISSIONS
from model.errors import NoPermission, SystemBusy
from remoting.security.policy import NamePatterns, Rights
from remoting.security.principal import Principal, Quota
from remoting.wire.field import Right
from testbed.simulation.cluster.access import derived_user


def test_a_quota_lets_a_second_of_it_pass_at_once_and_then_its_rate() -> None:
    quota = Quota(10.0)
    assert [quota.acquire(1, 5.0) for _ in range(10)] == [0.0] * 10
    assert quota.acquire(1, 5.0) == pytest.approx(0.1)
    assert quota.acquire(1, 5.1) == 0.0
    assert quota.acquire(1, 5.1) > 0
    assert [quota.acquire(1, 100.0) for _ in range(11)][9:] == [0.0, pytest.approx(0.1)]


def test_one_request_larger_than_the_quota_passes_and_is_paid_for_afterwards() -> None:
    quota = Quota(10.0)
    assert quota.acquire(35, 0.0) == 0.0
    assert quota.acquire(1, 1.0) > 0
    assert quota.acquire(1, 2.7) == 0.0


def test_the_refusal_of_a_quota_says_when_to_try_again() -> None:
    who = Principal(derived_user("alice", Rights(bytes_per_s=100.0)))
    who.spend(100, 0.0)
    with pytest.raises(SystemBusy, match="alice") as raised:
        who.spend(50, 0.0)
    assert raised.value.retry_after_s == pytest.approx(0.5)
    who.become(derived_user("alice", Rights()))
    assert not who.has_quota


def test_a_refusal_names_the_right_that_is_missing() -> None:
    who = Principal(derived_user("alice", Rights(produce=NamePatterns(["a"]))))
    who.check("SEND_MESSAGE", [(Right.PRODUCE, "a")])
    with pytest.raises(NoPermission, match="'alice' may not PULL_MESSAGE: it lacks the right: consume 'a'"):
        who.check("PULL_MESSAGE", [(Right.PRODUCE, "a"), (Right.CONSUME, "a")])


def test_a_name_of_a_peer_is_quoted_in_one_line_and_cut() -> None:
    who = Principal(derived_user("alice", Rights()))
    with pytest.raises(NoPermission) as raised:
        who.check("SEND_MESSAGE", [(Right.PRODUCE, "x\n<script>" + "y" * 10_000)])
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_what_was_permitted_is_forgotten_with_a_new_policy_and_beyond_the_limit() -> None:
    who = Principal(derived_user("alice", Rights()))
    for n in range(MAX_REMEMBERED_PERMISSIONS):
        who.permit(n)
    assert len(who.permitted) == MAX_REMEMBERED_PERMISSIONS
    who.permit("one more")
    assert who.permitted == {"one more"}
    who.become(who.user)
    assert not who.permitted
