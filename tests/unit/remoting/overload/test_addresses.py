"""The connections of one address to one server: its share, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remoting.overload.addresses import Addresses, network_of


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("10.0.0.1:5000", "10.0.0.1"),
        ("[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:ffff::1]:5001", "2001:db8:1:2::/64"),
        ("[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        ("[fe80::1%eth0]:5000", "fe80::/64"),
    ],
)
def test_an_ipv6_host_counts_by_its_network_and_all_else_by_its_address(peer: str, network: str) -> None:
    assert network_of(peer) == network


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_no_address_has_more_than_its_share_and_one_that_is_gone_leaves_its_place(
    steps: list[tuple[int, bool]],
) -> None:
    addresses, open_ = Addresses(3), {0: 0, 1: 0, 2: 0}
    for host, comes in steps:
        peer = f"10.0.0.{host}:5000"
        if comes:
            assert addresses.admit(peer) == (open_[host] < 3)
            open_[host] = min(3, open_[host] + 1)
        elif open_[host]:
            addresses.connection_closed(peer)
            open_[host] -= 1
    assert len(addresses) == sum(map(bool, open_.values())), "nothing is kept of those that are gone"
