"""The room `cli/group`."""
