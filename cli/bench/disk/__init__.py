"""The room `cli/bench/disk`."""
