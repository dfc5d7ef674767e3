"""What looks into brokers is tested in the simulated cluster, where time and faults obey."""

from __future__ import annotations

from tests.simulation.conftest import simulate

__all__ = ["simulate"]
