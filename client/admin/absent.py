"""Removes an absent broker that will not return from the lists of all name servers.

A name server lists a broker as absent when the broker is gone and did not unregister. Consumers keep the queues of an
absent broker for some time, and operators see them in the reports about groups.
"""

from __future__ import annotations

from client.admin.requests import ClusterRequests, list_names, successful_answers
from model.arguments import check_text
from model.errors import InvalidParameter
from remoting.request_code import RequestCode


async def forget_broker(cluster: ClusterRequests, broker: str) -> int:
    """See `Admin.forget_broker`."""
    check_text("the name of a broker", broker)
    if any(data.broker_name == broker for data in await cluster.brokers()):
        raise InvalidParameter(f"broker {broker!r} is registered: stop it first; a stop unregisters it")
    answers = await cluster.ask(cluster.servers, RequestCode.FORGET_BROKER, {"broker_name": broker})
    answered = successful_answers(answers, f"broker {broker!r} is not forgotten by", kind="name server")
    forgotten = sum(1 for answer in answered.values() if answer.header["n"])
    if not forgotten:
        absence = await cluster.absent()
        names = [each.broker_name for each in absence.brokers]
        raise InvalidParameter(f"no broker {broker!r} is away; {list_names('brokers that are away', names)}")
    return forgotten
