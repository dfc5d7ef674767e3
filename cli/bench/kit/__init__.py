"""The room `cli/bench/kit`."""
