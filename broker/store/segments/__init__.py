"""The room `broker/store/segments`."""
