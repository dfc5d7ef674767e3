"""The room `simulation/checks`."""
