"""The room `simulation/kernel`."""
