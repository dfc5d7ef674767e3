"""Requests to etcd through its JSON gateway (etcd 3.4 and newer), which one of its members answers for all.

    POST /v3/auth/authenticate     user and password -> a token, which expires: a request that is refused for its token
                                   was not applied, so it is sent again with a new one
    POST /v3/kv/txn                compare, then read or write; reads see the last write of any member

A member that does not answer is passed over, and asked again when the others do not answer either. A change is sent
once: a member that did not answer may have applied it, and only the caller knows how to find out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import anyio

from model.arguments import short_repr
from model.errors import ConfigError, NoPermission, NotAuthenticated, RegisterUnavailable
from model.replica_limits import MAX_ETCD_ANSWER_BYTES, REGISTER_TIMEOUT_S
from remoting.address import is_loopback, parse_address
from remoting.security.tls.trust import tls_reason
from replica.registers.etcd_place import PASSWORD_FILE, TLS_CA, USER, EtcdPlace, etcd_login, etcd_tls

logger = logging.getLogger(__name__)

_AUTHENTICATE, _TXN = "/v3/auth/authenticate", "/v3/kv/txn"
_OK, _UNAUTHENTICATED, _FORBIDDEN = 200, 401, 403
_ASK_ANOTHER = (408, 429)
"""Codes besides 5xx of a member that cannot do it now: a time-out, or a full database."""
_NOT_ENABLED = "authentication is not enabled"
_NO_USER = "user name is empty"
_WRONG_PASSWORD = "authentication failed"
_OLD_TOKEN = ("invalid auth token", "revision of auth store is old")
"""Texts of etcd's errors; their codes are shared with other errors."""


class _NoAnswer(Exception):
    """A member did not answer; `may_be_done` if the request has reached it."""

    def __init__(self, reason: str, *, may_be_done: bool = True) -> None:
        super().__init__(reason)
        self.may_be_done = may_be_done


class _TokenRefused(Exception):
    """The member does not accept the token; nothing was done."""


class EtcdGateway:
    """Sends requests to the members of one etcd; an async context manager that closes its connections.

    A call takes at most `timeout_s`, of which each member gets an equal share.

    Raises:
        RegisterUnavailable: by each call: no member does it now.
        ConfigError: by each call: a member is not an etcd of 3.4 or newer.
        NotAuthenticated, NoPermission: by each call: etcd refuses the user.
    """

    def __init__(
        self,
        location: EtcdPlace,
        *,
        timeout_s: float = REGISTER_TIMEOUT_S,
        login: Callable[[], tuple[str, str] | None] = etcd_login,
    ) -> None:
        self.place = location
        self._share_s = timeout_s / len(location.endpoints)
        self._login = login
        self._tls = etcd_tls()
        self._first = 0  # index of the member that is asked first
        self._token: str | None = None
        self._session: aiohttp.ClientSession
        if self._tls is None and login() is not None:
            for endpoint in location.endpoints:
                if not is_loopback(parse_address(endpoint)[0]):
                    logger.warning("the password for etcd is sent to %s without TLS: set %s", endpoint, TLS_CA)

    async def __aenter__(self) -> EtcdGateway:
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=None)
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._session.close()

    async def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send a transaction that changes nothing; returns the answer. Cancellation: harmless."""
        return await self._ask(document, is_change=False)

    async def change(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send a transaction with a change; it may be applied if RegisterUnavailable is raised.

        Cancellation: it may be applied.
        """
        return await self._ask(document, is_change=True)

    async def _ask(self, document: Mapping[str, Any], *, is_change: bool) -> dict[str, Any]:
        endpoints, failures = self.place.endpoints, []
        for _ in endpoints:
            endpoint = endpoints[self._first]
            try:
                return await self._with_token(endpoint, document)
            except _NoAnswer as error:
                failures.append(f"{endpoint}: {error}")
                self._first = (self._first + 1) % len(endpoints)
                if is_change and error.may_be_done:
                    raise RegisterUnavailable(f"etcd may have changed the register, or not: {failures[-1]}") from error
        raise RegisterUnavailable(f"no member of etcd answers for the register: {'; '.join(failures)}")

    async def _with_token(self, endpoint: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request with a token, and once more with a new one if that is refused."""
        if self._token is None:
            await self._authenticate(endpoint)
        try:
            return await self._post(endpoint, _TXN, document)
        except _TokenRefused:
            await self._authenticate(endpoint)
        try:
            return await self._post(endpoint, _TXN, document)
        except _TokenRefused as error:
            raise _NoAnswer(f"it refuses a token that was made just now: {error}", may_be_done=False) from error

    async def _authenticate(self, endpoint: str) -> None:
        self._token = None
        login = self._login()
        if login is None:
            return
        user, password = login
        try:
            answer = await self._post(endpoint, _AUTHENTICATE, {"name": user, "password": password})
        except _NoAnswer as error:
            raise _NoAnswer(str(error), may_be_done=False) from error
        except _TokenRefused as error:
            raise NotAuthenticated(f"etcd at {endpoint} refuses user {user}: {error}") from error
        token = answer.get("token", "")
        if type(token) is not str:
            raise _NoAnswer(f"it answered a login with {short_repr(token)} as its token", may_be_done=False)
        self._token = token

    async def _post(self, endpoint: str, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        url = f"{'http' if self._tls is None else 'https'}://{endpoint}{path}"
        headers = {"Authorization": self._token} if self._token else {}
        try:
            with anyio.fail_after(self._share_s):
                async with self._session.post(
                    url, json=document, headers=headers, ssl=self._tls or True, allow_redirects=False
                ) as answer:
                    body = await _bounded(answer)
        except aiohttp.ClientConnectorError as error:
            reason = tls_reason(error.os_error) or error.strerror or str(error)
            raise _NoAnswer(f"cannot connect: {reason}", may_be_done=False) from error
        except TimeoutError as error:
            raise _NoAnswer(f"no answer within {self._share_s:.3g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            hint = "" if self._tls else f" (if etcd uses TLS, set {TLS_CA})"
            raise _NoAnswer(f"the connection failed: {error or type(error).__name__}{hint}") from error
        return self._checked(endpoint, answer.status, _parsed(body), path)

    def _checked(self, endpoint: str, status: int, answer: dict[str, Any] | str, path: str) -> dict[str, Any]:
        """The document of an answer, or its error."""
        if status == _OK:
            if isinstance(answer, str):
                raise _NoAnswer(f"its answer is not a JSON object: {short_repr(answer)}")
            return answer
        text = answer if isinstance(answer, str) else str(answer.get("message") or answer.get("error") or answer)
        if path == _AUTHENTICATE and _NOT_ENABLED in text:
            logger.warning("etcd at %s has no authentication: %s is not needed", endpoint, USER)
            return {}
        if status == _UNAUTHENTICATED or any(each in text for each in _OLD_TOKEN):
            raise _TokenRefused(text)
        if _WRONG_PASSWORD in text or _NO_USER in text:
            raise NotAuthenticated(f"etcd at {endpoint} refuses the login ({text}): check {USER} and {PASSWORD_FILE}")
        if status == _FORBIDDEN:
            raise NoPermission(
                f"etcd at {endpoint} refuses ({text}): its user needs the permission readwrite for the keys that "
                f"begin with /{self.place.prefix}/"
            )
        if status >= 500 or status in _ASK_ANOTHER:
            raise _NoAnswer(f"HTTP {status}: {text}")
        hint = f": set {TLS_CA}" if "HTTPS" in text and self._tls is None else ""
        raise ConfigError(
            f"{endpoint} does not serve the JSON gateway of etcd 3.4 or newer (HTTP {status}: {short_repr(text)}){hint}"
        )


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The body of an answer, if it is not longer than any that etcd gives for a register."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > MAX_ETCD_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError(f"the answer is longer than {MAX_ETCD_ANSWER_BYTES} bytes")
    return bytes(body)


def _parsed(body: bytes) -> dict[str, Any] | str:
    """The JSON object in a body, or the text in its place."""
    text = body.decode(errors="replace").strip()
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return parsed if isinstance(parsed, dict) else text
