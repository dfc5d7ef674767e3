"""Gate: access control of one server. Shell: it keeps the connections without a proved key, and reloads the policy.

The gate greets a connection first: it answers the requests of the handshake, refuses all others, and closes the
connection if the handshake does not end in time. After that every byte is signed in both directions, requests go to the
server, and `guard` wraps each handler. A server without access control has no gate, and none of this runs.

    greeted --GET_CHALLENGE, AUTHENTICATE--> logged in --key or user is gone from the access file--> closed
       |                                         |
       +--deadline, too many refusals--> closed  +--> guard: rights, quotas, claims --> handler
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar

import anyio

from model.access_limits import (
    ACCESS_RELOAD_S,
    MAX_REFUSALS_REPORTED_PER_S,
    MAX_REFUSALS_UNAUTHENTICATED,
    MAX_UNAUTHENTICATED,
    MAX_UNAUTHENTICATED_OF_ADDRESS,
    UNAUTHENTICATED_S,
)
from model.counted import plural
from model.errors import ClientIdConflict, ConfigError, NoPermission, NotAuthenticated, RlabError, SystemBusy
from remoting.codec import MsgpackDecoder
from remoting.command import Command, is_outcome, short_text
from remoting.connection import Connection
from remoting.overload.addresses import Addresses
from remoting.request_code import RequestCode
from remoting.security.access_file import AccessFile
from remoting.security.claims import Claims, IdsOfConnection
from remoting.security.handshake import PROOF_CHARS, checked_session, make_transcript, server_proof
from remoting.security.key import KeyHash
from remoting.security.policy import Policy
from remoting.security.principal import USER, Principal
from remoting.security.records import RecordDecoder, RecordSigner
from remoting.security.right_fields import claimed_ids, is_decided_by_header, required_rights
from remoting.wire.field import Right
from remoting.wire.schema import check_header

logger = logging.getLogger(__name__)

Serve = Callable[[Connection, Command], object]
Answer = TypeVar("Answer")

_WITHOUT_KEY = "this server has access control: give the client a key, for instance by RLAB_KEY_FILE"
_CREDENTIALS = "name and rocketmq_secret (docs/security.md)"
_WRONG = "the key is wrong, or its user is not known here"


class _Unauthenticated:
    """A connection that has not proved a key."""

    __slots__ = ("challenge", "deadline", "refusals", "serve", "user")

    def __init__(self, serve: Serve, deadline: float) -> None:
        self.serve = serve
        self.deadline = deadline
        self.refusals = 0
        self.user = ""
        self.challenge: bytes | None = None  # the transcript that has to be proved


@dataclass(frozen=True, slots=True)
class _Session:
    """A connection that has proved a key."""

    principal: Principal
    key: KeyHash | str
    ids: IdsOfConnection
    permitted: set[object]  # the set of the principal, which never replaces it


class GuardedServer(Protocol):
    """The server behind a gate, which takes part in its decisions."""

    def user_of_id(self, name: str) -> str | None:
        """The owner of an id, for as long as the server stores a member or a query with it; else None."""

    def rights_changed(self, rights: Gate) -> None:
        """End the members, requests and queries whose user has lost a right that they need."""

    def access_refused(self, peer: str, user: str, text: str) -> None:
        """Record a refused request; called at most `MAX_REFUSALS_REPORTED_PER_S` times a second."""


class NoClientState:
    """The `GuardedServer` of a server that keeps nothing of its clients."""

    def user_of_id(self, name: str) -> str | None:
        """See `GuardedServer`; as the others."""
        return None

    def rights_changed(self, rights: Gate) -> None:
        """Nothing outlives a request."""

    def access_refused(self, peer: str, user: str, text: str) -> None:
        """The log has it."""


class Gate:
    """See the module header.

    Attributes:
        refused: number of refusals by the name of the response code.
    """

    def __init__(self, access: AccessFile | Policy, guarded: GuardedServer) -> None:
        self.refused: Counter[str] = Counter()
        self._guarded = guarded
        # A reader of its own: a replica has one server after the other, and the last one has seen the last change.
        self._file = AccessFile(access.path) if isinstance(access, AccessFile) else None
        self._policy: Policy = {}
        self._loop = asyncio.get_running_loop()
        self._unauthenticated: dict[Connection, _Unauthenticated] = {}  # the oldest first
        self._addresses = Addresses(MAX_UNAUTHENTICATED_OF_ADDRESS)  # of the connections without a proved key
        self._timer: asyncio.TimerHandle | None = None
        self._principals: dict[str, Principal] = {}
        self._logged_in: dict[Connection, _Session] = {}
        self._claims = Claims()
        self._reported = 0
        self._reports_from = 0.0
        # For users that do not exist: the answer must take as long, and be as long, as for existing users.
        self._unknown_user = KeyHash(secrets.token_bytes(32), secrets.token_bytes(32))
        if not isinstance(access, AccessFile):
            self.apply(access)
        elif self._file is not None and (policy := self._file.changed()) is not None:
            self.apply(policy)

    @property
    def unauthenticated(self) -> int:
        """Connections that have not proved a key."""
        return len(self._unauthenticated)

    # --- the policy --------------------------------------------------------------------------------------------------

    async def keep_current(self) -> None:
        """Apply each change of the access file; a file with an error changes nothing. Cancellation: harmless."""
        if self._file is None:
            return
        while True:
            await anyio.sleep(ACCESS_RELOAD_S)
            try:
                policy = self._file.changed()
            except ConfigError as error:
                logger.error("the access file was not reloaded, its last version stays in force: %s", error)
                continue
            if policy is not None:
                self.apply(policy)
                logger.warning("%s: reloaded, %d users", self._file.path, len(policy))

    def apply(self, policy: Policy) -> None:
        """Put a policy in force, for connections that are logged in as well; close those whose key has been removed."""
        self._policy = policy
        for name, principal in list(self._principals.items()):
            user = policy.get(name)
            if user is None:
                del self._principals[name]
                self._claims.forget(name)
            else:
                principal.become(user)
        for connection, session in list(self._logged_in.items()):
            name, key = session.principal.user.name, session.key
            user = policy.get(name)
            if user is None or (key not in user.keys and key != user.rocketmq_secret):
                logger.warning("closing the connection of %s: the key of %r is gone", connection.peer, name)
                connection.close()
        self._guarded.rights_changed(self)

    def allows(self, owner: str, right: Right, name: str) -> bool:
        """Whether the `owner` of a connection has a right now."""
        user = self._policy.get(owner.removeprefix(USER))
        return user is not None and user.rights.allow(right, name)

    def refusal(self, connection: Connection, request: Command) -> NoPermission | None:
        """The refusal of a request that was allowed and is not answered yet; None if it is still allowed."""
        session = self._logged_in.get(connection)
        if session is None:
            return None  # its connection is closed, so no answer can arrive
        try:
            session.principal.check(RequestCode(request.code).name, required_rights(request))
        except NoPermission as error:
            return error
        return None

    # --- guests ------------------------------------------------------------------------------------------------------

    def opened(self, connection: Connection, serve: Serve) -> None:
        """Greet a new connection; its requests go to `serve` once it has proved a key.

        Raises:
            SystemBusy: too many other connections have not proved a key yet.
        """
        if len(self._unauthenticated) >= MAX_UNAUTHENTICATED or not self._addresses.admit(connection.peer):
            self.refused["SYSTEM_BUSY"] += 1
            raise SystemBusy(
                f"{plural(len(self._unauthenticated), 'connection', 'has', 'have')} not proved a key yet: try again"
            )
        now = self._loop.time()
        self._unauthenticated[connection] = _Unauthenticated(serve, now + UNAUTHENTICATED_S)
        connection.serve_by(self._greet)
        if self._timer is None:
            self._timer = self._loop.call_at(now + UNAUTHENTICATED_S, self._expire)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._drop_unauthenticated(connection)
        session = self._logged_in.pop(connection, None)
        if session is not None:
            session.ids.release_all(self._loop.time())

    def _drop_unauthenticated(self, connection: Connection) -> None:
        if self._unauthenticated.pop(connection, None) is not None:
            self._addresses.connection_closed(connection.peer)

    def stop(self) -> None:
        """Stop the timer. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        now = self._loop.time() + 1e-6
        self._timer = None
        due = [
            connection
            for connection, connection_state in self._unauthenticated.items()
            if connection_state.deadline <= now
        ]
        for connection in due:
            self._drop_unauthenticated(connection)
            error = NotAuthenticated(f"no key was proved within {UNAUTHENTICATED_S:g} s: {_WITHOUT_KEY}")
            self._report(connection, "", error)
            connection.respond_error(Command(0, 0, 0, {}, None), error)
            connection.close()
        for connection_state in islice(self._unauthenticated.values(), 1):
            self._timer = self._loop.call_at(connection_state.deadline, self._expire)

    def _greet(self, connection: Connection, command: Command) -> None:
        connection_state = self._unauthenticated.get(connection)
        if connection_state is None:
            return  # expired or cut off: frames that it sent before may still arrive
        connection.accept(command)
        try:
            if command.code == RequestCode.GET_CHALLENGE:
                check_header(command)
                connection.respond(command, {"nonce": self._challenge(connection_state, command.header)})
            elif command.code == RequestCode.AUTHENTICATE:
                check_header(command)
                self._authenticate(connection, connection_state, command)
            else:
                raise NotAuthenticated(_WITHOUT_KEY)
        except RlabError as error:
            self._report(connection, connection_state.user, error)
            connection.respond_error(command, error)
            connection_state.refusals += 1
            if connection_state.refusals >= MAX_REFUSALS_UNAUTHENTICATED:
                connection.close()

    @staticmethod
    def _challenge(connection_state: _Unauthenticated, header: dict[str, Any]) -> str:
        nonce = secrets.token_hex(16)
        connection_state.user = header["user"]
        connection_state.challenge = make_transcript(connection_state.user, header["nonce"], nonce)
        return nonce

    def _authenticate(self, connection: Connection, connection_state: _Unauthenticated, command: Command) -> None:
        transcript, connection_state.challenge = connection_state.challenge, None  # each challenge allows one try
        if transcript is None:
            raise NotAuthenticated("ask for a challenge first; each is good for one proof")
        text = command.header["proof"]
        try:
            proof = bytes.fromhex(text) if len(text) == PROOF_CHARS else b""
        except ValueError:
            proof = b""
        if len(proof) * 2 != PROOF_CHARS:
            raise NotAuthenticated(_WRONG)
        user = self._policy.get(connection_state.user)
        for key in (user.keys if user is not None else ()) or (self._unknown_user,):
            session = checked_session(key, proof, transcript)
            if session is None or user is None:
                continue
            # Queued before `protect`, which writes it first: the proof is the last frame without a signature.
            connection.respond(command, {"proof": server_proof(key, transcript).hex()})
            decoder = RecordDecoder(session.to_server, MsgpackDecoder)
            connection.protect(RecordSigner(session.to_client).sign, decoder)
            self._log_in(connection, connection_state, user.name, key)
            return
        raise NotAuthenticated(_WRONG)

    def _log_in(
        self, connection: Connection, connection_state: _Unauthenticated, name: str, key: KeyHash | str
    ) -> None:
        principal = self._principals.get(name)
        if principal is None:
            principal = self._principals[name] = Principal(self._policy[name])
        self._drop_unauthenticated(connection)
        self._logged_in[connection] = _Session(principal, key, IdsOfConnection(self._claims), principal.permitted)
        connection.owner = f"{USER}{name}"
        connection.serve_by(connection_state.serve)

    def check_rocketmq(self, connection: Any, access_key: str, signature: str, contents: tuple[bytes, ...]) -> None:
        """Check the signature of one request of RocketMQ's protocol; the first right one logs the client in.

        RocketMQ: AclClientRPCHook. A signature covers one request, and nothing of the connection.

        Raises:
            NoPermission: the signature is wrong or missing, or of another user than the earlier requests.
        """
        user = self._policy.get(access_key)
        secret = user.rocketmq_secret if user is not None else ""
        rights = [b64encode(hmac.digest((secret or "nobody").encode(), each, "sha1")) for each in contents]
        login = self._logged_in.get(connection)
        if user is None or not secret or not any([hmac.compare_digest(right, signature.encode()) for right in rights]):
            text = "access key and signature are wrong" if access_key else "access key and signature are missing"
            error = NoPermission(f"{text}: this server has access control, give the client a user's {_CREDENTIALS}")
        elif login is not None and login.principal.user.name != user.name:
            error = NoPermission("this connection belongs to another user: run its clients in separate processes")
        else:
            if (connection_state := self._unauthenticated.get(connection)) is not None:
                self._log_in(connection, connection_state, user.name, secret)
            return
        self._report(connection, access_key, error)
        raise error

    # --- requests ----------------------------------------------------------------------------------------------------

    def user_of(self, connection: Connection) -> str:
        """The name of the user of a connection; "" if no key was proved."""
        session = self._logged_in.get(connection)
        return "" if session is None else session.principal.user.name

    def guard(
        self, code: int, handler: Callable[[Connection, Command], Answer]
    ) -> Callable[[Connection, Command], Answer]:
        """Return a handler behind the checks of rights, quotas and claims."""
        logged_in = self._logged_in

        def guarded(connection: Connection, request: Command) -> Answer:
            session, header = logged_in[connection], request.header
            if session.principal.has_quota:
                self._spend(session.principal, connection, request)
            # One tuple of everything that the decision depends on; most requests equal an earlier one.
            acts = "token" in header or "commit" in header
            client_id = header.get("client_id")
            key = (code, header.get("topic"), header.get("group"), client_id, acts)
            if key not in session.permitted or (client_id is not None and client_id not in session.ids.names):
                self._check(session, connection, request)
                if is_decided_by_header(request):
                    session.principal.permit(key)
            return handler(connection, request)

        return guarded

    def _spend(self, principal: Principal, connection: Connection, request: Command) -> None:
        try:
            principal.spend(len(request.body or b""), self._loop.time())
        except SystemBusy as error:
            self._report(connection, principal.user.name, error)
            raise

    def _check(self, session: _Session, connection: Connection, request: Command) -> None:
        name = session.principal.user.name
        try:
            session.principal.check(RequestCode(request.code).name, required_rights(request))
            for claimed in claimed_ids(request):
                is_known_to_server = self._guarded.user_of_id(claimed) not in (None, f"{USER}{name}")
                if is_known_to_server or not session.ids.claim(claimed, name, self._loop.time()):
                    raise ClientIdConflict(
                        f"{short_text(claimed)} belongs to another user while that user is connected or a member with "
                        "it, and some minutes longer: choose another one"
                    )
        except (NoPermission, ClientIdConflict, SystemBusy) as error:
            if not is_outcome(request, error.code or 0):
                self._report(connection, name, error)
            raise

    def _report(self, connection: Connection, user: str, error: RlabError) -> None:
        assert error.code is not None, "a refusal has a code"
        self.refused[error.code.name] += 1
        now = self._loop.time()
        if now >= self._reports_from + 1.0:
            self._reported, self._reports_from = 0, now
        self._reported += 1
        if self._reported > MAX_REFUSALS_REPORTED_PER_S:
            return
        logger.warning("refused %s, user %s: %s", connection.peer, short_text(user), error)
        self._guarded.access_refused(connection.peer, user, str(error))
