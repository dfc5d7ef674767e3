"""The room `broker/store/disk`."""
