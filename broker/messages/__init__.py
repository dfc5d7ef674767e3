"""The room `broker/messages`."""
