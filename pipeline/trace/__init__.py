"""The room `pipeline/trace`."""
