"""What is an address, and what people write by mistake."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import ConfigError
from remoting.address import format_address, is_loopback, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        ("0.0.0.0:0", "0.0.0.0", 0),
        (" broker-a.example.org:65535 ", "broker-a.example.org", 65535),
        ("[::1]:10911", "::1", 10911),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("bücher.example:80", "bücher.example", 80),
    ],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert parse_address(format_address(host, port)) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "9876",
        ":9876",
        "localhost",
        "localhost:",
        "localhost:port",
        "localhost:-1",
        "localhost:65536",
        "localhost:" + "9" * 5_000,
        "localhost:٣",  # a digit, but not one of ours
        "::1:9876",
        "::1",
        "[127.0.0.1]:9876",
        "[::1:9876",
        "[]:9876",
        "a..b:9876",
        "x" * 64 + ":9876",
        "a b:9876",
        "a\0b:9876",
    ],
)
def test_what_is_not_an_address_is_refused_with_an_example_of_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write host:port, for instance 127\.0\.0\.1:9876"):
        parse_address(text)


@given(st.text(max_size=20) | st.from_regex(r"[a-z:\[\].]{0,12}:[0-9]{1,6}", fullmatch=True))
def test_any_text_is_an_address_that_can_be_written_again_or_a_config_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ConfigError:
        return
    assert parse_address(format_address(host, port)) == (host, port)
    host.encode("idna")  # what the resolver does first


def test_several_addresses_are_a_list_or_a_string_with_commas_or_semicolons() -> None:
    expected = ("a:1", "b:2")
    assert parse_addresses("a:1;b:2") == expected
    assert parse_addresses(" a:1 , b:2,a:1,") == expected
    assert parse_addresses(["a:1", "b:2", "a:01"]) == expected
    assert parse_addresses("a:1") == ("a:1",)


@pytest.mark.parametrize("addresses", ["", " ,;", []])
def test_no_address_at_all_is_refused(addresses: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="no address given"):
        parse_addresses(addresses)


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.5", False),
        ("fe80::1%eth0", False),
        ("broker-a", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_only_this_machine_reaches_a_loopback_address(host: str, alone: bool) -> None:
    assert is_loopback(host) is alone


@pytest.mark.parametrize("addresses", [None, 5, b"n:1", [None], [b"n:1"], [["n:1"]], {"n:1"}])
def test_addresses_of_a_wrong_type_are_refused_as_such(addresses: Any) -> None:
    with pytest.raises(ConfigError, match="addresses must be a string or a list of strings, got "):
        parse_addresses(addresses)
