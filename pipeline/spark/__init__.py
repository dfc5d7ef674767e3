"""The room `pipeline/spark`."""
