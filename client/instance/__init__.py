"""The room `client/instance`."""
