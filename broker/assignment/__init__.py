"""The room `broker/assignment`."""
