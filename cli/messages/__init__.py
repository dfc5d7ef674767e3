"""The room `cli/messages`."""
