"""The room `client/pop`."""
