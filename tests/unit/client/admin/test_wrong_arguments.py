"""Arguments of a wrong type: administration refuses each by name, before any server is asked to change something."""

from __future__ import annotations

from typing import Any

import pytest

from client.admin.admin import Admin
from model.errors import ConfigError, InvalidParameter, UsageError
from model.message_queue import MessageQueue
from model.offset_reset import ResetTo
from testbed.simulation.cluster.cluster import SimulatedCluster
from tests.simulation.conftest import Simulate
from tests.simulation.wire import WireTap, wire

pytestmark = pytest.mark.walk

__all__ = ["wire"]

NO_TEXTS: tuple[Any, ...] = (5, b"t", ["t"])
NO_LISTS: tuple[Any, ...] = (5, "broker-a", b"t")
NO_WHOLES: tuple[Any, ...] = ("1", 1.5, b"t", [1])
Q = MessageQueue("t", "broker-a", 0)


async def refused(admin: Any, method: str, *arguments: Any, **options: Any) -> None:
    with pytest.raises(UsageError, match=r"must be|must have|is no |is not registered|no queue"):
        await getattr(admin, method)(*arguments, **options)


def test_arguments_of_a_wrong_type_are_refused_by_name_and_change_nothing(simulate: Simulate, wire: WireTap) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t")
        with cluster.simulation.on_host("operator"):
            async with Admin(cluster.addresses) as admin:
                wire.sent.clear()
                for wrong in NO_TEXTS:
                    for method in ("broker_info", "route", "create_topic", "delete_topic", "delete_group", "group"):
                        await refused(admin, method, wrong)
                    for method in ("producer_group", "progress", "assignment"):
                        await refused(admin, method, wrong)
                    await refused(admin, "routes", [wrong])
                    await refused(admin, "scale_topic", wrong, read=1)
                    await refused(admin, "set_group", wrong, consume=True)
                    await refused(admin, "reset_offsets", wrong, "t", ResetTo.earliest())
                    await refused(admin, "reset_offsets", "g", wrong, ResetTo.earliest())
                    await refused(admin, "reset_offsets", "g", "t", wrong)
                    await refused(admin, "query_message", wrong, "k")
                    await refused(admin, "read_queue", wrong)
                    await refused(admin, "allow_writes", "broker-a", allowed=wrong)
                for wrong in NO_LISTS:
                    await refused(admin, "routes", wrong)
                    await refused(admin, "create_topic", "u", brokers=wrong)
                    await refused(admin, "reset_offsets", "g", "t", ResetTo.earliest(), queues=wrong)
                for wrong in NO_WHOLES:
                    await refused(admin, "create_topic", "u", wrong)
                    await refused(admin, "scale_topic", "t", read=wrong)
                    await refused(admin, "set_group", "g", max_attempts=wrong, create=True)
                    await refused(admin, "query_message", "t", "k", max_n=wrong)
                    await refused(admin, "read_queue", Q, max_n=wrong)
                assert {sent.code.name for sent in wire.sent if sent.code is not None} <= ASKING

    simulate(scenario)


ASKING = {"GET_BROKER_CLUSTER_INFO", "GET_ROUTEINFO_BY_TOPIC", "GET_BROKER_RUNTIME_INFO", "GET_SERVER_STATE"}


@pytest.mark.parametrize("wrong", [0, -1, "1", None])
def test_a_timeout_that_no_request_could_keep_to_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="timeout_s must be above 0"):
        Admin("127.0.0.1:9876", timeout_s=wrong)


@pytest.mark.parametrize("options", [{"key": "user:secret"}, {"rng": 5}])
def test_a_key_or_a_source_of_randomness_of_a_wrong_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"key must be a Key, and rng a random\.Random"):
        Admin("127.0.0.1:9876", **options)


@pytest.mark.parametrize("since_ms", [-1, "1", b"t"])
def test_a_trace_begins_at_a_number_of_milliseconds(since_ms: Any) -> None:
    with pytest.raises(InvalidParameter, match="since_ms must be 0 to"):
        Admin("127.0.0.1:9876").trace(since_ms)
