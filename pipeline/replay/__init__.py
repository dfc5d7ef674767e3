"""The room `pipeline/replay`."""
