"""The room `broker/store/keys`."""
