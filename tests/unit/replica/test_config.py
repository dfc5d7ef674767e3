"""The options of a replica."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import BrokerConfig
from model.errors import ConfigError
from replica.config import ReplicaConfig
from replica.registers.memory import MemoryRegister


def test_a_handover_needs_time() -> None:
    broker = BrokerConfig(name="broker-a", data_dir=Path("d"))
    with pytest.raises(ConfigError, match="handover_timeout_s"):
        ReplicaConfig(broker=broker, register=MemoryRegister(), handover_timeout_s=0)
