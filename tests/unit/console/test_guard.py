from __future__ import annotations

import pytest

from console.guard import READ_ONLY, Guard, allowed_names

ORIGIN = "http://localhost:8080"


def guard(*, allow_changes: bool = True) -> Guard:
    return Guard(allowed_names("127.0.0.1", 8080, ["console.test"]), "token", allow_changes=allow_changes)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080", "console.test", "console.test:8080"]
)
def test_the_names_of_this_host_are_answered(host: str) -> None:
    assert guard().refuses_host(host) == ""


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "127.0.0.1:8081", "127.0.0.1", "", "localhost:8080.evil.example"]
)
def test_a_name_that_someone_else_lets_point_here_is_refused(host: str) -> None:
    assert "--allow-host" in guard().refuses_host(host)


def test_the_address_that_it_listens_on_is_a_name_of_it() -> None:
    assert "10.0.0.5:8080" in allowed_names("10.0.0.5", 8080)


def test_a_name_is_the_same_in_capitals() -> None:
    assert Guard(allowed_names("Box.Test", 8080), "", allow_changes=False).refuses_host("BOX.test:8080") == ""


@pytest.mark.parametrize(("scheme", "port"), [("http", 80), ("https", 443)])
def test_a_port_that_the_scheme_implies_may_be_left_out_and_no_other(scheme: str, port: int) -> None:
    for host in ("localhost", "[::1]", "10.0.0.5", f"10.0.0.5:{port}"):
        assert host in allowed_names("10.0.0.5", port, scheme=scheme)
    assert "localhost" not in allowed_names("10.0.0.5", 523 - port, scheme=scheme)


def test_a_change_needs_permission_the_token_and_our_own_page() -> None:
    refuses = guard().refuses_change

    assert refuses("localhost:8080", ORIGIN, "token") == ""
    assert "earlier run" in refuses("localhost:8080", ORIGIN, "")
    assert "earlier run" in refuses("localhost:8080", ORIGIN, "tokén")
    for origin in ("", "null", "http://evil.example", "https://localhost:8080", "http://127.0.0.1:8080"):
        assert "page of this console" in refuses("localhost:8080", origin, "token")
    assert guard(allow_changes=False).refuses_change("localhost:8080", ORIGIN, "token") == READ_ONLY
