"""The policy: the users, and what each of them may do. Pure.

An access file is TOML, one table for each user:

    [users.orders-service]
    key = "rlab1:9d41...:77aa..."          # 'rlab key new' prints it; `keys` takes several, to change one
    produce = ["orders", "orders-eu-*"]    # topics; a * at the end stands for any rest, and nowhere else
    consume = ["orders"]                   # topics
    groups = ["billing"]                   # consumer and producer groups it may be a member of
    manage = ["team-a-*"]                  # topics and groups that it may create, change, reset and delete

    [users.broker-a]
    key = "rlab1:..."
    brokers = ["broker-a"]                 # names of brokers that it may register with name servers
    replicate = ["broker-a"]               # names of brokers that it may be a replica of

    [users.ops]
    key = "rlab1:..."
    admin = true                           # everything about the cluster as a whole, and `manage` of everything

Anything that is not allowed is refused. The right to a group includes its topics (%RETRY%, %DLQ%). A `*` alone does not
include topics of the system: the trace shows who consumes what from which address, so SYS_TRACE has to be named. Every
user may send its own events to it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from model.access_limits import MAX_USERS
from model.errors import ConfigError, InvalidParameter
from model.names import DLQ_PREFIX, RETRY_PREFIX, TEMPLATE_TOPIC, TRACE_TOPIC, is_system_topic
from remoting.security.key import KeyHash, check_user
from remoting.wire.field import Right

MAX_KEYS_OF_USER = 4
EVERY_TOPIC = "*"


class NamePatterns:
    """Names and prefixes, as in a list of an access file."""

    __slots__ = ("_names", "_prefixes")

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        patterns = tuple(patterns)
        self._names = frozenset(each for each in patterns if not each.endswith("*"))
        self._prefixes = tuple(sorted({each[:-1] for each in patterns if each.endswith("*")}))

    def __contains__(self, name: str) -> bool:
        return name in self._names or name.startswith(self._prefixes)

    def __bool__(self) -> bool:
        return bool(self._names or self._prefixes)

    def names_itself(self, name: str) -> bool:
        """Whether the whole name is listed, not only a prefix of it."""
        return name in self._names


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What one user may do; see the module header. `requests_per_s` and `bytes_per_s` are quotas, 0 for none."""

    produce: NamePatterns = field(default_factory=NamePatterns)
    consume: NamePatterns = field(default_factory=NamePatterns)
    groups: NamePatterns = field(default_factory=NamePatterns)
    manage: NamePatterns = field(default_factory=NamePatterns)
    brokers: NamePatterns = field(default_factory=NamePatterns)
    replicate: NamePatterns = field(default_factory=NamePatterns)
    admin: bool = False
    requests_per_s: float = 0.0
    bytes_per_s: float = 0.0

    def allow(self, right: Right, name: str = "") -> bool:
        """Whether they include a right to the thing of this name."""
        if right is Right.ANYONE:
            return True
        if right is Right.ADMIN:
            return self.admin
        if right is Right.PRODUCE_ANY:
            return bool(self.produce)
        if right is Right.CONSUME_ALL:
            return EVERY_TOPIC in self.consume
        if right is Right.REGISTER:
            return name in self.brokers
        if right in (Right.REPLICATE, Right.CHANGE_SET):
            return name in self.replicate or (self.admin and right is Right.CHANGE_SET)
        if right in (Right.MEMBER, Right.MANAGE_GROUP, Right.KNOW_GROUP):
            return self._group(right, name)
        return self._topic(right, name)

    def _group(self, right: Right, group: str) -> bool:
        managed = self.admin or group in self.manage
        if right is Right.MANAGE_GROUP:
            return managed
        return group in self.groups or (right is Right.KNOW_GROUP and managed)

    def _topic(self, right: Right, topic: str) -> bool:
        if topic.startswith(RETRY_PREFIX):
            needed_right = Right.MANAGE_GROUP if right is Right.MANAGE_TOPIC else Right.KNOW_GROUP
            return self._group(needed_right, topic.removeprefix(RETRY_PREFIX))
        if topic.startswith(DLQ_PREFIX):
            use_rights = (Right.CONSUME, Right.CONSUME_OR_MANAGE, Right.KNOW)
            needed_right = Right.KNOW_GROUP if right in use_rights else Right.MANAGE_GROUP
            return self._group(needed_right, topic.removeprefix(DLQ_PREFIX))
        if is_system_topic(topic):
            if right is Right.MANAGE_TOPIC:
                return False
            if topic in (TRACE_TOPIC, TEMPLATE_TOPIC) and right is Right.KNOW:
                return True
            if right is Right.PRODUCE:
                return topic == TRACE_TOPIC
            return self.consume.names_itself(topic) or (self.admin and right is Right.KNOW)
        # A broker asks for routes, too.
        managed = self.admin or topic in self.manage or (right is Right.KNOW and bool(self.brokers))
        if right is Right.PRODUCE:
            return topic in self.produce
        if right is Right.CONSUME:
            return topic in self.consume
        if right is Right.CONSUME_OR_MANAGE:
            return managed or topic in self.consume
        return managed or (right is Right.KNOW and (topic in self.produce or topic in self.consume))


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One user; `rocketmq_secret` is for RocketMQ's clients, whose signatures need the plain secret."""

    name: str
    keys: tuple[KeyHash, ...]
    rights: Rights
    rocketmq_secret: str = field(default="", repr=False)


Policy = Mapping[str, User]
"""Users by name."""

_LISTS = ("produce", "consume", "groups", "manage", "brokers", "replicate")
_QUOTAS = ("requests_per_s", "bytes_per_s")
_KNOWN = {*_LISTS, *_QUOTAS, "key", "keys", "admin", "rocketmq_secret"}


def parse_policy(text: str) -> dict[str, User]:
    """Read an access file.

    Raises:
        ConfigError: it is malformed; the error names the user and the option, never a value.
    """
    try:
        wire = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the access file is not TOML: {error}") from error
    users = wire.pop("users", {})
    if wire or type(users) is not dict:
        raise ConfigError(
            f"an access file has tables [users.NAME] and nothing else, not {', '.join(wire) or 'a value'}"
        )
    if len(users) > MAX_USERS:
        raise ConfigError(f"an access file may have {MAX_USERS} users, not {len(users)}")
    return {name: _user_of(name, table) for name, table in users.items()}


def _user_of(name: str, table: Any) -> User:
    try:
        check_user(name)
        if type(table) is not dict:
            raise ConfigError("it must be a table")
        unknown = sorted(table.keys() - _KNOWN)
        if unknown:
            raise ConfigError(f"there is no option {unknown[0]!r}; there are {', '.join(sorted(_KNOWN))}")
        lists: dict[str, Any] = {option: NamePatterns(_patterns(option, table.get(option, []))) for option in _LISTS}
        quotas: dict[str, Any] = {option: _quota(option, table.get(option, 0)) for option in _QUOTAS}
        admin, secret = table.get("admin", False), table.get("rocketmq_secret", "")
        if type(admin) is not bool or type(secret) is not str:
            raise ConfigError("admin must be true or false, and rocketmq_secret a text")
        return User(name=name, keys=_keys(table), rights=Rights(**lists, **quotas, admin=admin), rocketmq_secret=secret)
    except (ConfigError, InvalidParameter) as error:
        raise ConfigError(f"user {name[:80]!r} of the access file: {error}") from None


def _keys(table: Mapping[str, Any]) -> tuple[KeyHash, ...]:
    keys = table.get("keys", [])
    texts = [*([table["key"]] if "key" in table else []), *(keys if type(keys) is list else [keys])]
    if len(texts) > MAX_KEYS_OF_USER or any(type(text) is not str for text in texts):
        raise ConfigError(f"keys must be a list of up to {MAX_KEYS_OF_USER} texts")
    return tuple(map(KeyHash.parse, texts))


def _patterns(option: str, patterns: Any) -> list[str]:
    if type(patterns) is not list or any(type(each) is not str or "*" in each[:-1] for each in patterns):
        raise ConfigError(f"{option} must be a list of names, each of which may end in *")
    return patterns


def _quota(option: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < float("inf"):
        raise ConfigError(f"{option} must be a number of at least 0; 0 means no quota")
    return float(value)
