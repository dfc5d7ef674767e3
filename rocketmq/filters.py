"""The filters of RocketMQ's clients and servers: tags, and expressions of SQL92. Pure.

RocketMQ: ExpressionType, FilterAPI.
"""

from __future__ import annotations

from model.errors import InvalidParameter
from model.subscription import Expression, Sql, SubscriptionData

TAG, SQL92 = "TAG", "SQL92"
CHECK_CLIENT_CONFIG = 46
"""The request of a client at its start, whether a server can use a filter."""


def expression_of(kind: str, text: str) -> Expression:
    """The expression of a subscription, from its type and its text; without a type it is tags.

    Raises:
        FilterIllegal: the text is not an expression of the language.
        InvalidParameter: another type.
    """
    if kind in (TAG, ""):
        return text
    if kind == SQL92:
        return Sql(text)
    raise InvalidParameter(f"a filter of type {kind!r} is not known: the types are {TAG} and {SQL92}")


def kind_of(subscription: SubscriptionData) -> str:
    """The type of a subscription's expression."""
    return SQL92 if subscription.is_sql else TAG
