"""Reads the settings of a group from every broker, and changes them on all brokers with one cause.

The cause is the id that the events of all brokers about this change have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.admin.requests import Answer, ClusterRequests, list_names, unpack
from model.arguments import check_iterable
from model.errors import GroupNotExist, InvalidParameter, RlabError
from model.group_settings import GroupSettings
from model.names import check_group
from remoting.command import Command
from remoting.request_code import RequestCode


def settings_by_broker(answers: Mapping[str, Answer]) -> dict[str, GroupSettings]:
    """Broker name -> settings, of the answers that have them: earlier versions of a broker do not."""
    return {
        name: GroupSettings.from_wire(unpack(answer), answer.header)
        for name, answer in sorted(answers.items())
        if not isinstance(answer, RlabError)
    }


async def set_group(
    cluster: ClusterRequests, group: str, changes: Mapping[str, Any], *, create: bool
) -> dict[str, GroupSettings]:
    """See `Admin.set_group`."""
    if not changes:
        raise InvalidParameter(
            "nothing to set: name consume, broadcast, retry_queues, max_attempts, fifo or retry_delays_ms"
        )
    header: dict[str, Any] = {"group": check_group(group), **changes}
    if "retry_delays_ms" in changes:
        check_iterable("retry_delays_ms", changes["retry_delays_ms"])
        header["retry_delays_ms"] = list(changes["retry_delays_ms"])
    settings = {name: value for name, value in header.items() if name != "group"}
    GroupSettings(**settings)  # refused here, before some of the brokers have it
    masters = await cluster.masters()
    if not create:
        lists = await cluster.ask(masters, RequestCode.GET_GROUP_LIST, {})
        names = {row[0] for answer in lists.values() if not isinstance(answer, RlabError) for row in unpack(answer)}
        if group not in names:
            raise GroupNotExist(
                f"no broker knows group {group!r}; {list_names('known groups', sorted(names))}. "
                "For a group that has yet to start, say so: --create"
            )
    # One broker first: its event is the cause of the events of the others.
    first, *other_masters = masters
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    answers = await cluster.ask({first: masters[first]}, code, header)
    reported = answers[first]
    cause = reported.header["cause"] if isinstance(reported, Command) else ""
    answers |= await cluster.ask({name: masters[name] for name in other_masters}, code, {**header, "cause": cause})
    failures = {name: answer for name, answer in answers.items() if isinstance(answer, RlabError)}
    if failures:
        done_text = ", ".join(name for name in answers if name not in failures) or "no broker"
        texts = "; ".join(f"not on {name}: {error}" for name, error in failures.items())
        raise type(next(iter(failures.values())))(
            f"group {group!r} was set on {done_text}, and {texts}. Repeat it when they answer: it is safe"
        )
    return settings_by_broker(answers)
