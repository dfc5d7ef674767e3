"""The room `client/admin`."""
