from __future__ import annotations

import pytest

from model.access_limits import MAX_USERS
from model.errors import ConfigError
from remoting.security.key import Key
from remoting.security.policy import MAX_KEYS_OF_USER, NamePatterns, Rights, parse_policy
from remoting.wire.field import Right

HASH = str(Key("alice", bytes(32)).hash())


def test_names_are_exact_or_prefixes_and_empty_ones_hold_nothing() -> None:
    names = NamePatterns(["orders", "team-a-*"])
    assert "orders" in names
    assert "team-a-x" in names
    assert "orders-eu" not in names
    assert "team-" not in names
    assert "" not in NamePatterns()
    assert "anything" in NamePatterns(["*"])


@pytest.mark.parametrize(
    ("rights", "right", "name", "allowed"),
    [
        (Rights(), Right.PRODUCE, "orders", False),
        (Rights(), Right.ANYONE, "", True),
        (Rights(produce=NamePatterns(["orders"])), Right.PRODUCE, "orders", True),
        (Rights(produce=NamePatterns(["orders"])), Right.CONSUME, "orders", False),
        (Rights(produce=NamePatterns(["orders"])), Right.KNOW, "orders", True),
        (Rights(produce=NamePatterns(["orders"])), Right.MANAGE_TOPIC, "orders", False),
        (Rights(manage=NamePatterns(["orders"])), Right.CONSUME, "orders", False),
        (Rights(manage=NamePatterns(["orders"])), Right.MANAGE_TOPIC, "orders", True),
        (Rights(admin=True), Right.MANAGE_TOPIC, "orders", True),
        (Rights(admin=True), Right.CONSUME, "orders", False),
        (Rights(admin=True), Right.REGISTER, "broker-a", False),
        (Rights(brokers=NamePatterns(["broker-a"])), Right.REGISTER, "broker-a", True),
        (Rights(brokers=NamePatterns(["*"])), Right.ADMIN, "", False),
        # A replica has all messages, which an administrator may not read; both may decide which replica is the master.
        (Rights(brokers=NamePatterns(["broker-a"])), Right.REPLICATE, "broker-a", False),
        (Rights(brokers=NamePatterns(["broker-a"])), Right.CHANGE_SET, "broker-a", False),
        (Rights(replicate=NamePatterns(["broker-a"])), Right.REPLICATE, "broker-a", True),
        (Rights(replicate=NamePatterns(["broker-a"])), Right.CHANGE_SET, "broker-a", True),
        (Rights(replicate=NamePatterns(["broker-a"])), Right.CHANGE_SET, "broker-b", False),
        (Rights(replicate=NamePatterns(["broker-a"])), Right.REGISTER, "broker-a", False),
        (Rights(admin=True), Right.REPLICATE, "broker-a", False),
        (Rights(admin=True), Right.CHANGE_SET, "broker-a", True),
        (Rights(brokers=NamePatterns(["b"])), Right.KNOW, "orders", True),
        (Rights(brokers=NamePatterns(["b"])), Right.MANAGE_TOPIC, "orders", False),
        # Where a group is on a topic is decided by who consumes or manages the topic.
        (Rights(produce=NamePatterns(["orders"])), Right.CONSUME_OR_MANAGE, "orders", False),
        (Rights(consume=NamePatterns(["orders"])), Right.CONSUME_OR_MANAGE, "orders", True),
        (Rights(manage=NamePatterns(["orders"])), Right.CONSUME_OR_MANAGE, "orders", True),
        (Rights(admin=True), Right.CONSUME_OR_MANAGE, "orders", True),
        (Rights(admin=True), Right.CONSUME_OR_MANAGE, "SYS_TRACE", False),
        (Rights(groups=NamePatterns(["billing"])), Right.CONSUME_OR_MANAGE, "%DLQ%billing", True),
        (Rights(consume=NamePatterns(["*"])), Right.CONSUME_ALL, "", True),
        (Rights(consume=NamePatterns(["orders"]), admin=True), Right.CONSUME_ALL, "", False),
        # Topics of a group go with the group.
        (Rights(consume=NamePatterns(["*"])), Right.CONSUME, "%RETRY%billing", False),
        (Rights(groups=NamePatterns(["billing"])), Right.CONSUME, "%RETRY%billing", True),
        (Rights(groups=NamePatterns(["billing"])), Right.PRODUCE, "%RETRY%billing", True),
        (Rights(groups=NamePatterns(["billing"])), Right.CONSUME, "%DLQ%billing", True),
        (Rights(groups=NamePatterns(["billing"])), Right.PRODUCE, "%DLQ%billing", False),
        (Rights(groups=NamePatterns(["billing"])), Right.MANAGE_TOPIC, "%DLQ%billing", False),
        # The trace tells of everybody, and everybody writes it.
        (Rights(consume=NamePatterns(["*"])), Right.CONSUME, "SYS_TRACE", False),
        (Rights(consume=NamePatterns(["SYS_TRACE"])), Right.CONSUME, "SYS_TRACE", True),
        (Rights(), Right.PRODUCE, "SYS_TRACE", True),
        (Rights(admin=True, produce=NamePatterns(["*"])), Right.PRODUCE, "RMQ_SYS_TRANS_HALF_TOPIC", False),
        (Rights(admin=True), Right.MANAGE_TOPIC, "SYS_TRACE", False),
        # Whoever manages a group may look at it, and is no member.
        (Rights(manage=NamePatterns(["billing"])), Right.MEMBER, "billing", False),
        (Rights(manage=NamePatterns(["billing"])), Right.KNOW_GROUP, "billing", True),
        (Rights(groups=NamePatterns(["billing"])), Right.MANAGE_GROUP, "billing", False),
    ],
)
def test_a_right_includes_what_it_says_and_nothing_else(rights: Rights, right: Right, name: str, allowed: bool) -> None:
    assert rights.allow(right, name) is allowed


def test_a_file_gives_each_user_its_rights() -> None:
    policy = parse_policy(f'[users.alice]\nkey = "{HASH}"\nproduce = ["a*"]\nbytes_per_s = 10\n[users.bob]\n')
    assert policy["alice"].rights.allow(Right.PRODUCE, "abc")
    assert policy["alice"].rights.bytes_per_s == 10.0
    assert policy["bob"].keys == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("users = 1", "tables"),
        ("[users.alice]\nprodce = []", "'prodce'"),
        ('[users.alice]\nproduce = "orders"', "produce must be a list"),
        ('[users.alice]\nproduce = ["a*b"]', "may end in"),
        ('[users.alice]\nadmin = "yes"', "admin must be"),
        ("[users.alice]\nbytes_per_s = -1", "bytes_per_s"),
        ('[users.alice]\nkey = "secret"', "rlab key new"),
        ("[users.alice]\nkeys = 5", "keys must be"),
        (f"[users.alice]\nkeys = {[HASH] * (MAX_KEYS_OF_USER + 1)}", "up to 4"),
        ('[users."a b"]', "user name"),
        ("[users", "not TOML"),
        ("[other]", "nothing else"),
        ("\n".join(f"[users.u{n}]" for n in range(MAX_USERS + 1)), f"{MAX_USERS} users"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line_that_quotes_no_secret(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        parse_policy(text)
    assert "\n" not in str(raised.value)
    assert HASH not in str(raised.value)
