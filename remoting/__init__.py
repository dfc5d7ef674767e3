"""The wire: command codes, frames, request sessions, and the asyncio server and client on top of them."""
