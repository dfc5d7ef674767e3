"""The room `broker/durability`."""
