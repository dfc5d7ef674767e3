"""The room `simulation/faults`."""
