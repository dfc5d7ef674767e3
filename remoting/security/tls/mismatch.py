"""Finds out after a failed connection whether a server uses TLS, and whether it asks for a certificate. Blocking.

A server with TLS closes a connection that begins with a plain frame, and a server without it a connection that begins
with a greeting of TLS: to the client, both look like a server that stops. So the client connects once more, in the
other way. Nothing secret is sent, and no answer is trusted: the result is for the text of an error.

With TLS 1.3 a server judges the certificate of a client when the client's handshake has ended, and asyncio closes the
connection without the alert. With TLS 1.2 this is a part of the handshake, so a server whose handshake fails only with
TLS 1.2 refuses the certificate, or the lack of one.

It needs nothing but the codec and the standard library, because processes of Spark have nothing else of ours.
"""

from __future__ import annotations

import socket
import ssl

from model.limits import MAX_FRAME_BYTES
from remoting.address import parse_address
from remoting.codec import CODEC, LENGTH_BYTES
from remoting.command import REQUEST
from remoting.request_code import RequestCode

MAX_PROBE_S = 1.0
"""Longest wait for a second connection: a server that answers nothing must not double the time of a failed request."""


def uses_tls(address: str, timeout_s: float) -> bool:
    """Whether the server at `host:port` answers a greeting of TLS; False if it does not in time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(parse_address(address), min(timeout_s, MAX_PROBE_S)) as connection,
            context.wrap_socket(connection, server_hostname=parse_address(address)[0]),
        ):
            return True
    except OSError as error:
        return is_refusal(error)


def requires_tls(address: str, timeout_s: float) -> bool:
    """Whether the server at `host:port` uses TLS for all its clients; it may also offer TLS to those that want it."""
    return uses_tls(address, timeout_s) and not answers_plain_frames(address, timeout_s)


def answers_plain_frames(address: str, timeout_s: float) -> bool:
    """Whether the server at `host:port` answers a request that is not encrypted; the limits of time are the same."""
    try:
        with socket.create_connection(parse_address(address), min(timeout_s, MAX_PROBE_S)) as connection:
            connection.sendall(CODEC.encode(REQUEST, RequestCode.GET_SERVER_STATE, 1, {}, None))
            start = connection.recv(LENGTH_BYTES, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(start) == LENGTH_BYTES and int.from_bytes(start, "big") <= MAX_FRAME_BYTES


def refuses_certificate(address: str, context: ssl.SSLContext, timeout_s: float) -> bool:
    """Whether the server at `host:port` asks for a certificate, and refuses what this context of a client shows.

    False if it does not answer in time. The context is changed, and of no further use.
    """
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        with socket.create_connection(parse_address(address), min(timeout_s, MAX_PROBE_S)) as connection:
            try:
                context.wrap_socket(connection, server_hostname=parse_address(address)[0]).close()
            except (ConnectionError, ssl.SSLEOFError):
                return uses_tls(address, timeout_s)  # a server that has just stopped closes each connection
    except OSError:
        return False
    return False


def is_refusal(error: BaseException) -> bool:
    """Whether one side has refused the certificate or the kind of TLS of the other, so that a retry cannot help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    return isinstance(error, ssl.SSLError) and "ALERT" in str(error)
