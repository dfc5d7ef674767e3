"""The room `client/lite_pull`."""
