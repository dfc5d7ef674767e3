"""TLS of clients: the authority that they trust, and a certificate of their own if servers ask for one.

It needs nothing but the standard library, because processes of Spark have nothing else of ours.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping

from model.errors import ConfigError

TLS_CA, TLS_CERT, TLS_KEY = "RLAB_TLS_CA", "RLAB_TLS_CERT", "RLAB_TLS_KEY"
"""Variables: the certificate of the authority that signed the servers', and a certificate and key to show to them."""


def client_context(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """The context of this process's clients; None without RLAB_TLS_CA. It is created for each connection.

    Raises:
        ConfigError: a file cannot be used.
    """
    authority = environment.get(TLS_CA)
    if not authority:
        return None
    try:
        context = ssl.create_default_context(cafile=authority)
        if cert := environment.get(TLS_CERT):
            context.load_cert_chain(cert, environment.get(TLS_KEY) or None)
    except (OSError, ssl.SSLError) as error:
        files = f"the authority {authority} ({TLS_CA}), or the certificate and key to show ({TLS_CERT}, {TLS_KEY})"
        raise ConfigError(f"cannot use {files}: {error}") from error
    return context


def tls_reason(error: BaseException) -> str:
    """The reason why a TLS handshake failed, for people; "" for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return f"TLS failed: {error.reason or error}" if isinstance(error, ssl.SSLError) else ""
