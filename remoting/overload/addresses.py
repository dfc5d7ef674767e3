"""Counts the connections of each address to one server, so that no address can take all places. Pure.

An IPv6 host has a network of its own, with 2^64 addresses, so for IPv6 the network is counted.

    addresses = Addresses(2)
    addresses.admit("10.0.0.1:5000"), addresses.admit("10.0.0.1:5001") -> True, True
    addresses.admit("10.0.0.1:5002") -> False, addresses.admit("10.0.0.2:5000") -> True
"""

from __future__ import annotations

from ipaddress import IPv6Address

_NETWORK_BITS = 64


def network_of(peer: str) -> str:
    """Return the address or network under which a peer is counted; the peer is `host:port` or `[host]:port`."""
    host = peer.rpartition(":")[0].strip("[]")
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{IPv6Address(int(address) >> _NETWORK_BITS << _NETWORK_BITS)}/{_NETWORK_BITS}"


class Addresses:
    """See the module header. It has at most as many entries as there are connections."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def admit(self, peer: str) -> bool:
        """Count a connection, unless its address already has its share; returns whether it is counted."""
        network = network_of(peer)
        n = self._counts.get(network, 0)
        if n >= self.limit:
            return False
        self._counts[network] = n + 1
        return True

    def connection_closed(self, peer: str) -> None:
        """Stop counting a connection, which is closed."""
        network = network_of(peer)
        self._counts[network] -= 1
        if not self._counts[network]:
            del self._counts[network]
