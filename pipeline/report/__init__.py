"""The room `pipeline/report`."""
