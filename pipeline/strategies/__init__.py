"""The room `pipeline/strategies`."""
