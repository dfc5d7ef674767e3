"""The room `broker/leases`."""
