"""The room `broker/groups`."""
