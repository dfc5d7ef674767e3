"""The room `client/pull`."""
