"""The subscription of one member to one topic: all messages, some tags, or an SQL filter over properties.

    SubscriptionData("orders")                                 everything
    SubscriptionData("orders", "new || paid")                  messages with one of these tags
    SubscriptionData("orders", "price > 10", is_sql=True)      messages whose properties match

RocketMQ: SubscriptionData, FilterAPI, MessageSelector.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from model.arguments import check_text, short_repr
from model.errors import InvalidParameter, RequestCodeNotSupported, RlabError
from model.limits import MAX_EXPRESSION_CHARS
from model.message import tag_hash
from model.names import check_topic
from model.sql.compiled import compile_filter

ALL = "*"


@dataclass(frozen=True, slots=True)
class Sql:
    """A filter by properties, in RocketMQ's language, in the place of tags: `Sql("price > 10 AND region = 'north'")`.

    Raises:
        InvalidParameter: the text is not a string.
        FilterIllegal: it is not an expression of the language; the error has the position.
    """

    text: str

    def __post_init__(self) -> None:
        check_text("the text of an SQL filter", self.text)
        _check_encodable(self.text)
        compile_filter(self.text)


Expression = str | Sql
"""The wanted messages of a topic: all (`*`), those with one of some tags (`a || b`), or those that match a filter."""


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """A topic and an expression.

    Attributes:
        expression: `*` for everything, tags joined by `||`, or the text of an SQL filter.
        version: grows with every change of the expression by its member; compared per member only, never across members
            (RocketMQ compares the wall clocks of different machines, and the slower clock always loses).
        is_sql: whether the expression is an SQL filter.
    """

    topic: str
    expression: str = ALL
    version: int = 0
    is_sql: bool = False

    @property
    def tags(self) -> frozenset[str] | None:
        """The wanted tags, or None for all."""
        return None if self.is_sql else parse_expression(self.expression)

    @property
    def sql(self) -> str | None:
        """The SQL filter, or None for tags."""
        return self.expression if self.is_sql else None

    @property
    def tag_hashes(self) -> tuple[int, ...] | None:
        """Sorted hashes of the wanted tags, as a pull carries them, or None for all."""
        tags = self.tags
        return None if tags is None else tuple(sorted(tag_hash(tag) for tag in tags))

    @property
    def wants(self) -> frozenset[str] | str | None:
        """Equal for subscriptions that want the same messages: the tags, the filter, or None for all."""
        return self.expression if self.is_sql else self.tags

    @property
    def given(self) -> Expression:
        """The expression as it was given to `subscribe`."""
        return Sql(self.expression) if self.is_sql else self.expression

    def __str__(self) -> str:
        """The topic with its expression, an SQL filter in quotes: `orders=SQL"price > 10"`."""
        return f"{self.topic}={f'SQL{json.dumps(self.expression)}' if self.is_sql else self.expression}"

    def explained(self, error: RlabError, broker_name: str) -> RlabError:
        """The reason why a broker refuses a pull or pop of this subscription, by name where it knows no SQL filters."""
        if self.is_sql and isinstance(error, RequestCodeNotSupported):
            return RequestCodeNotSupported(
                f"broker {broker_name!r} is of a version without SQL filters: upgrade it, or subscribe to tags"
            )
        return error

    def to_header(self) -> dict[str, object]:
        """The field of a pull or pop that has the expression; none where all messages are wanted."""
        if self.is_sql:
            return {"sql": self.expression}
        hashes = self.tag_hashes
        return {} if hashes is None else {"tag_hashes": list(hashes)}


def parse_expression(expression: str) -> frozenset[str] | None:
    """Split a tag expression: `*` (or nothing) for all messages, which returns None, else `tagA || tagB`.

    Raises:
        InvalidParameter: the expression has no tag.
    """
    stripped = expression.strip()
    if stripped in ("", ALL):
        return None
    tags = frozenset(tag.strip() for tag in stripped.split("||") if tag.strip())
    if not tags:
        raise InvalidParameter(f"subscription expression {expression!r} names no tag: use '*' or 'tagA || tagB'")
    return tags


def make_subscription(topic: str, expression: Expression, version: int) -> SubscriptionData:
    """Make a checked subscription.

    Raises:
        InvalidParameter: illegal topic name or expression.
    """
    check_topic(topic)
    if isinstance(expression, Sql):
        return SubscriptionData(topic, expression.text, version, is_sql=True)
    if not isinstance(expression, str):
        raise InvalidParameter(
            f"the tags of the subscription to {topic!r} must be a string as 'tagA || tagB', or a filter as "
            f"Sql('price > 10'), got {short_repr(expression)}"
        )
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise InvalidParameter(
            f"the subscription to {topic!r} has {len(expression)} characters, more than {MAX_EXPRESSION_CHARS}: "
            "subscribe to all tags, and leave out messages in the listener"
        )
    parse_expression(expression)
    _check_encodable(expression)
    return SubscriptionData(topic, expression.strip() or ALL, version)


def _check_encodable(expression: str) -> None:
    try:
        expression.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(
            f"the subscription {expression!r} is not text: it has half of a surrogate pair"
        ) from None
