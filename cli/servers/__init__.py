"""The room `cli/servers`."""
