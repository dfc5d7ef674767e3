"""The room `pipeline/source`."""
