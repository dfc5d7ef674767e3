"""The room `simulation/cluster`."""
