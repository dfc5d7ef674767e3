"""The room `client/produce`."""
