"""The room `broker/pop`."""
