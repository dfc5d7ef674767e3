"""The room `client/listeners`."""
