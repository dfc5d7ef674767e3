"""Ports of servers that are started again."""

from __future__ import annotations

from testbed.cluster.ports import free_port


def test_two_brokers_never_get_one_port() -> None:
    assert len({free_port() for _ in range(5)}) == 5
