"""The room `client/push`."""
