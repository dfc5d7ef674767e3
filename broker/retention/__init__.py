"""The room `broker/retention`."""
