"""The room `cli/bench/rebalance`."""
