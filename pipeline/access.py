"""The options of a read or a write for its own key, and for the certificates of servers that it trusts.

A session may read one cluster and write another, so each read and each write has its own. Without an option the
environment of the process decides, as for every other client (docs/security.md).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from model.errors import ConfigError
from pipeline.given_options import GivenOptions
from remoting.security.login import KEY, KEY_FILE
from remoting.security.tls.trust import TLS_CA, TLS_CERT, TLS_KEY

ACCESS_OPTIONS = ("keyFile", "tlsCa", "tlsCert", "tlsKey")
"""Every option, in the order of the tables in docs/spark-source.md and docs/spark-sink.md."""
_WITHOUT = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessFiles:
    """Paths of files, which executors read as well; None where the environment decides, "" for no such file."""

    key_file: str | None = None
    tls_ca: str | None = None
    tls_cert: str = ""
    tls_key: str = ""

    def environment(self, of_process: Mapping[str, str] = os.environ) -> Mapping[str, str]:
        """Return the variables of the environment with those that the options replace."""
        changed = dict(of_process)
        if self.key_file is not None:
            changed |= {KEY_FILE: self.key_file, KEY: ""}
        if self.tls_ca is not None:
            changed |= {TLS_CA: self.tls_ca, TLS_CERT: self.tls_cert, TLS_KEY: self.tls_key}
        return changed


OF_ENVIRONMENT = AccessFiles()


def access_files(options: GivenOptions) -> AccessFiles:
    """Parse the options of a read or a write.

    Raises:
        ConfigError: a value is empty, or an option is given without the other that it needs.
    """
    for name, needed in (("tlsCert", "tlsCa"), ("tlsKey", "tlsCert")):
        if options.has(name) and not options.has(needed):
            raise ConfigError(f"option {name} needs option {needed}: give both, or neither")
    key_file, tls_ca, tls_cert, tls_key = (options.parsed(name, _path, None) for name in ACCESS_OPTIONS)
    if tls_cert and not tls_ca:
        raise ConfigError("option tlsCert: a certificate is shown only with TLS, and option tlsCa turns it off")
    return AccessFiles(key_file=key_file, tls_ca=tls_ca, tls_cert=tls_cert or "", tls_key=tls_key or "")


def _path(text: str) -> str | None:
    if not text:
        raise ValueError(f"write the path of a file, or {_WITHOUT}")
    return "" if text.lower() == _WITHOUT else text
