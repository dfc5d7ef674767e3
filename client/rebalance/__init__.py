"""The room `client/rebalance`."""
