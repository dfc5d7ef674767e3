"""The room `client/leases`."""
