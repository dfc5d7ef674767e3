"""The room `broker/retry`."""
