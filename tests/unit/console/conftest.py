"""What asks a cluster is tested in the simulated one, where brokers can be silent."""

from __future__ import annotations

from tests.simulation.conftest import simulate

__all__ = ["simulate"]
