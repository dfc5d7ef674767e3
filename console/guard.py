"""The rules by which the console answers a request. Pure.

A page of another site can make the browser of its user send requests to this machine. Two rules prevent that. The Host
header has to be a name of this console, so a name that an attacker points here (DNS rebinding) is refused. A request
for a change needs the origin of our own page, and the token of this run, which only that page can read.

    guard = Guard(("127.0.0.1:8080", "localhost:8080"), token, allow_changes=True)
    guard.refuses_host("evil.example:8080")                       -> the reason
    guard.refuses_change("127.0.0.1:8080", "http://127.0.0.1:8080", given_token)    -> ""
"""

from __future__ import annotations

from collections.abc import Sequence

from remoting.address import format_address, is_loopback
from remoting.security.key import equal_secrets

_LOCAL = ("localhost", "127.0.0.1", "::1")
_IMPLIED_PORTS = {"http": 80, "https": 443}
READ_ONLY = "the console is read-only: start it with --allow-changes"


def allowed_names(host: str, port: int, more: Sequence[str] = (), *, scheme: str = "http") -> tuple[str, ...]:
    """Return the names, with their port, that browsers may use for a console on this host and port.

    `more` has further names that the user allows, with or without a port. A browser omits a port that its scheme
    implies.
    """
    hosts = (*_LOCAL, *((host.lower(),) if not is_loopback(host) else ()))
    names = [format_address(each, port) for each in hosts]
    if port == _IMPLIED_PORTS.get(scheme):
        names += [name.removesuffix(f":{port}") for name in names]
    for each in more:
        names += [each.lower(), f"{each.lower()}:{port}"]
    return tuple(dict.fromkeys(names))


class Guard:
    """Checks requests; see the module header."""

    def __init__(self, names: Sequence[str], token: str, *, allow_changes: bool, scheme: str = "http") -> None:
        self.token = token
        self.allow_changes = allow_changes
        self._names = frozenset(names)
        self._scheme = scheme

    def refuses_host(self, host: str) -> str:
        """Return why a request with this Host header is refused; empty if it is not."""
        if host.lower() in self._names:
            return ""
        return f"this console is not called {host!r}: use an address that it printed, or start it with --allow-host"

    def refuses_change(self, host: str, origin: str, token: str) -> str:
        """Return why a change is refused; empty if it is not. A browser always sends the origin of such a request."""
        if not self.allow_changes:
            return READ_ONLY
        if origin.lower() != f"{self._scheme}://{host.lower()}":
            return "a change has to come from a page of this console"
        if not equal_secrets(token, self.token):
            return "the page is of an earlier run of this console: load it again"
        return ""
