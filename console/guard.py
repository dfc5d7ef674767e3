"""The rules by which the console answers a request. Pure.

A page of another site that a user happens to open can make that user's browser send requests to this machine. Two ways
are closed: a name that an attacker lets point here (DNS rebinding) is not one of the names of this host, and a request
that changes something needs the token of this run, which only our own page can read, and our own page's origin.

    guard = Guard(("127.0.0.1:8080", "localhost:8080"), token, allow_changes=True)
    guard.refuses_host("evil.example:8080")                       -> why
    guard.refuses_change("127.0.0.1:8080", "http://127.0.0.1:8080", given_token)    -> ""
"""

from __future__ import annotations

from collections.abc import Sequence

from remoting.address import format_address, is_loopback
from remoting.security.key import same_secret

_LOCAL = ("localhost", "127.0.0.1", "::1")
_IMPLIED_PORTS = {"http": 80, "https": 443}
READ_ONLY = "the console is read-only: start it with --allow-changes"


def names_of(host: str, port: int, more: Sequence[str] = (), *, scheme: str = "http") -> tuple[str, ...]:
    """The names, with their port, that a browser may call a console by that listens on this host and port.

    `more` are names that the user allows, with or without a port. A browser leaves a port out that its scheme implies.
    """
    hosts = (*_LOCAL, *((host.lower(),) if not is_loopback(host) else ()))
    names = [format_address(each, port) for each in hosts]
    if port == _IMPLIED_PORTS.get(scheme):
        names += [name.removesuffix(f":{port}") for name in names]
    for each in more:
        names += [each.lower(), f"{each.lower()}:{port}"]
    return tuple(dict.fromkeys(names))


class Guard:
    """What is answered; see the module header."""

    def __init__(self, names: Sequence[str], token: str, *, allow_changes: bool, scheme: str = "http") -> None:
        self.token = token
        self.allow_changes = allow_changes
        self._names = frozenset(names)
        self._scheme = scheme

    def refuses_host(self, host: str) -> str:
        """Why a request with this Host header is refused; empty if it is not."""
        if host.lower() in self._names:
            return ""
        return f"this console is not called {host!r}: use an address that it printed, or start it with --allow-host"

    def refuses_change(self, host: str, origin: str, token: str) -> str:
        """Why a change is refused; empty if it is not. A browser always names the origin of such a request."""
        if not self.allow_changes:
            return READ_ONLY
        if origin.lower() != f"{self._scheme}://{host.lower()}":
            return "a change has to come from a page of this console"
        if not same_secret(token, self.token):
            return "the page is of an earlier run of this console: load it again"
        return ""
