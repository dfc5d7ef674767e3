"""The room `broker/sink`."""
