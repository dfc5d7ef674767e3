"""The options of a replica."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import BrokerConfig
from model.errors import ConfigError
from model.replica_limits import SET_GRACE_S
from replica.config import ReplicaConfig
from replica.registers.memory import MemoryRegister


def test_a_handover_needs_time() -> None:
    broker = BrokerConfig(name="broker-a", data_dir=Path("d"))
    with pytest.raises(ConfigError, match="handover_timeout_s"):
        ReplicaConfig(broker=broker, register=MemoryRegister(), handover_timeout_s=0)


def test_a_new_master_keeps_queues_for_longer_than_their_owners_dispatch_without_an_answer() -> None:
    broker = BrokerConfig(name="broker-a", data_dir=Path("d"), restore_grace_s=SET_GRACE_S - 0.1)
    with pytest.raises(ConfigError, match=r"restore_grace_s is 9\.9"):
        ReplicaConfig(broker=broker, register=MemoryRegister())
