"""Completion of names in a shell: topics, groups and members of the running cluster, and strategies.

Each function gets the beginning of a word. Names that do not arrive within a second are left out, because the shell
waits for them. An error also completes to nothing: its text would be written into the line that the user types.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import anyio

from model.errors import RlabError

if TYPE_CHECKING:
    from client.admin.admin import Admin

LOCAL = "127.0.0.1:9876"
"""The name server that commands ask when none is named."""
_WAIT_S = 1.0


def topics(incomplete: str) -> list[str]:
    """The topics of the cluster."""
    return with_prefix(incomplete, _asked(lambda admin: admin.topics()))


def groups(incomplete: str) -> list[str]:
    """The groups of the cluster."""

    async def names(admin: Admin) -> list[str]:
        return [each.group for each in await admin.groups()]

    return with_prefix(incomplete, _asked(names))


def members(incomplete: str) -> list[str]:
    """The client ids of the members of all groups."""

    async def names(admin: Admin) -> list[str]:
        client_ids: dict[str, None] = {}
        for each in await admin.groups():
            if each.members:
                client_ids |= dict.fromkeys(member.client_id for member in (await admin.group(each.group)).members)
        return list(client_ids)

    return with_prefix(incomplete, _asked(names))


def fault_words(incomplete: str) -> list[str]:
    """The words of `rlab fault` that name a member or a group: `client=c2`, `group=billing`."""
    for column, names in (("client=", members), ("group=", groups)):
        if incomplete.startswith(column):
            return [column + name for name in names(incomplete.removeprefix(column))]
    return with_prefix(incomplete, ["client=", "group="])


def strategies(incomplete: str) -> list[str]:
    """The names of the allocation strategies of a member."""
    return [*own_strategies(incomplete), *with_prefix(incomplete, ["BROKER"])]


def own_strategies(incomplete: str) -> list[str]:
    """The names of the allocation strategies that members compute themselves."""
    from client.allocate.registry import strategy_names

    return with_prefix(incomplete, strategy_names())


def with_prefix(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin so."""
    return [name for name in names if name.startswith(incomplete)]


def _asked(call: Callable[[Admin], Awaitable[Iterable[str]]]) -> list[str]:
    from client.admin.admin import Admin

    async def main() -> list[str]:
        with anyio.move_on_after(_WAIT_S):
            async with Admin(os.environ.get("RLAB_NAMESRV") or LOCAL) as admin:
                return list(await call(admin))
        return []

    logging.disable(logging.CRITICAL)
    try:
        return anyio.run(main)
    except (RlabError, OSError):
        return []
    finally:
        logging.disable(logging.NOTSET)
