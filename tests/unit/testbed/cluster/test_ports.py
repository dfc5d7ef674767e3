from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from testbed.cluster.ports import free_port

TWENTY_PORTS = "from testbed.cluster.ports import free_port; print(*(free_port() for _ in range(20)))"


def test_two_brokers_never_get_one_port() -> None:
    assert len({free_port() for _ in range(5)}) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="macOS lets no server listen beside a reservation")
@pytest.mark.process
def test_a_port_is_not_given_to_another_process_before_its_server_listens() -> None:
    """Two crash runs at the same moment both got port 20,000, and the second broker could not start."""
    ports = {free_port() for _ in range(5)}
    done = subprocess.run([sys.executable, "-c", TWENTY_PORTS], check=True, capture_output=True)
    assert ports.isdisjoint(map(int, done.stdout.split()))


@pytest.mark.tcp
def test_a_server_listens_on_its_reserved_port_again_and_again() -> None:
    port = free_port()
    for _ in range(2):
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass
