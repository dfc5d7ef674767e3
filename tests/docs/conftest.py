"""The fixture that CONTRIBUTING.md shows."""

from __future__ import annotations

from tests.simulation.conftest import simulate

__all__ = ["simulate"]
