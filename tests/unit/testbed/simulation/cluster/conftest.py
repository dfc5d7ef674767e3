"""Handlers that only make sense with clients around them are tested in the simulated cluster."""

from __future__ import annotations

from tests.simulation.conftest import simulate

__all__ = ["simulate"]
