"""The room `simulation/swarm`."""
