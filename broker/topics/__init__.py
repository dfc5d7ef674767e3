"""The room `broker/topics`."""
