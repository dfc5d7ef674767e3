"""Reads and writes addresses: `host:port` strings and lists of them. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from model.arguments import short_repr
from model.errors import ConfigError

_PORT = re.compile("[0-9]{1,5}")


def parse_address(address: str) -> tuple[str, int]:
    """Split `host:port`; an IPv6 host is in brackets.

    Raises:
        ConfigError: the text has another form, or the port is not 0..65535.
    """
    host, _, port = address.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not _is_host(host) or bracketed != (":" in host) or not _PORT.fullmatch(port) or int(port) > 65_535:
        raise ConfigError(
            f"{address!r} is not an address: write host:port, for instance 127.0.0.1:9876 or [::1]:9876 for IPv6"
        )
    return host, int(port)


def _is_host(host: str) -> bool:
    # The resolver encodes a name with IDNA, which refuses empty labels and labels of more than 63 characters with an
    # error that is not an OSError.
    try:
        return bool(host.encode("idna")) and host.isprintable() and " " not in host
    except UnicodeError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host; a name other than `localhost` counts as reachable by others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def format_address(host: str, port: int) -> str:
    """Join host and port the way `parse_address` reads them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_addresses(addresses: str | Sequence[str]) -> tuple[str, ...]:
    """Read one or more name servers from a string (separated by `,` or `;`) or a list, in order, without repeats.

    Raises:
        ConfigError: there is no address, or one is malformed.
    """
    several = isinstance(addresses, Sequence) and all(isinstance(address, str) for address in addresses)
    if not several:
        raise ConfigError(f"addresses must be a string or a list of strings, got {short_repr(addresses)}")
    parts = addresses.replace(";", ",").split(",") if isinstance(addresses, str) else addresses
    parsed = dict.fromkeys(format_address(*parse_address(part)) for part in parts if part.strip())
    if not parsed:
        raise ConfigError("no address given: write host:port, for instance 127.0.0.1:9876")
    return tuple(parsed)
