"""The subscription of one member to one topic. RocketMQ: SubscriptionData, FilterAPI."""

from __future__ import annotations

from dataclasses import dataclass

from model.arguments import shown
from model.errors import InvalidParameter
from model.limits import MAX_EXPRESSION_CHARS
from model.message import tag_hash
from model.names import check_topic

ALL = "*"


@dataclass(frozen=True, slots=True)
class SubscriptionData:
    """A topic and a tag expression.

    Attributes:
        expression: `*` for everything, or tags joined by `||`.
        version: grows with every change of the expression by its member; compared per member only, never across members
            (RocketMQ compares the wall clocks of different machines, and the slower clock always loses).
    """

    topic: str
    expression: str = ALL
    version: int = 0

    @property
    def tags(self) -> frozenset[str] | None:
        """The wanted tags, or None for all."""
        return parse_expression(self.expression)

    @property
    def tag_hashes(self) -> tuple[int, ...] | None:
        """Sorted hashes of the wanted tags, as a pull carries them, or None for all."""
        tags = self.tags
        return None if tags is None else tuple(sorted(tag_hash(tag) for tag in tags))


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


def subscription_of(topic: str, expression: str, version: int) -> SubscriptionData:
    """Make a checked subscription.

    Raises:
        InvalidParameter: illegal topic name or expression.
    """
    check_topic(topic)
    if not isinstance(expression, str):
        raise InvalidParameter(
            f"the tags of the subscription to {topic!r} must be a string as 'tagA || tagB', got {shown(expression)}"
        )
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise InvalidParameter(
            f"the subscription to {topic!r} has {len(expression)} characters, more than {MAX_EXPRESSION_CHARS}: "
            "subscribe to all tags, and leave out messages in the listener"
        )
    parse_expression(expression)
    try:
        expression.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(
            f"the subscription {expression!r} is not text: it has half of a surrogate pair"
        ) from None
    return SubscriptionData(topic, expression.strip() or ALL, version)
