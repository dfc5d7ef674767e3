"""The room `pipeline/sink`."""
