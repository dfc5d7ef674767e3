"""The room `simulation/runs`."""
