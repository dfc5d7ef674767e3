"""The room `cli/trace`."""
