"""The room `cli/bench/throughput`."""
