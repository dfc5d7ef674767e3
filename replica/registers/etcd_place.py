"""The address of a register in etcd, and the variables by which this process proves itself there.

    etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379          keys below /rlab/
    etcd://10.0.0.1:2379/tests                                keys below /tests/, for one more cluster in the same etcd

Passwords are not part of the address, because addresses are shown in lists of processes and in logs.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.arguments import short_repr
from model.errors import ConfigError
from model.replica_limits import MAX_ETCD_ENDPOINTS, MAX_ETCD_PREFIX_CHARS
from remoting.address import parse_addresses

SCHEME = "etcd://"
USER, PASSWORD, PASSWORD_FILE = "RLAB_ETCD_USER", "RLAB_ETCD_PASSWORD", "RLAB_ETCD_PASSWORD_FILE"
"""Variables: the name of a user of etcd, and its password or a file with it."""
TLS_CA, TLS_CERT, TLS_KEY = "RLAB_ETCD_CA", "RLAB_ETCD_CERT", "RLAB_ETCD_KEY"
"""Variables: files in PEM. With the authority that signed the certificates of etcd, connections use TLS; certificate
and key are shown to an etcd that asks for them."""
VARIABLES = (USER, PASSWORD, PASSWORD_FILE, TLS_CA, TLS_CERT, TLS_KEY)
_DEFAULT_PREFIX = "rlab"
_PREFIX = re.compile(r"[A-Za-z0-9._-]+")
_MAX_PASSWORD_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdPlace:
    """The members of etcd that may be asked, each `host:port`, and the first part of all keys, without slashes."""

    endpoints: tuple[str, ...]
    prefix: str = _DEFAULT_PREFIX

    def __str__(self) -> str:
        return f"{SCHEME}{','.join(self.endpoints)}/{self.prefix}"


def parse_place(text: str) -> EtcdPlace:
    """Read the address of a register in etcd.

    Raises:
        ConfigError: it is not one.
    """
    if not text.startswith(SCHEME):
        raise ConfigError(f"{short_repr(text)} is not the address of a register: write etcd://HOST:PORT,HOST:PORT")
    addresses, _, path = text.removeprefix(SCHEME).partition("/")
    if "@" in addresses:
        raise ConfigError(f"the address of etcd has no user and no password: set {USER} and {PASSWORD_FILE}")
    endpoints = parse_addresses(addresses)
    prefix = path.removesuffix("/") or _DEFAULT_PREFIX
    if len(endpoints) > MAX_ETCD_ENDPOINTS:
        raise ConfigError(f"etcd may have {MAX_ETCD_ENDPOINTS} addresses here, got {len(endpoints)}")
    if not _PREFIX.fullmatch(prefix) or len(prefix) > MAX_ETCD_PREFIX_CHARS:
        # No slash: the keys of one register would be among those of another one.
        raise ConfigError(
            f"{short_repr(path)} cannot begin keys of etcd: "
            f"use up to {MAX_ETCD_PREFIX_CHARS} letters, digits, '.', '_', '-'"
        )
    return EtcdPlace(endpoints=endpoints, prefix=prefix)


def etcd_tls(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext | None:
    """The TLS context of connections to etcd; None without RLAB_ETCD_CA.

    Raises:
        ConfigError: a file cannot be used, or there is a certificate and no authority.
    """
    authority, cert = environment.get(TLS_CA), environment.get(TLS_CERT)
    if not authority:
        if cert or environment.get(TLS_KEY):
            raise ConfigError(f"{TLS_CERT} and {TLS_KEY} need {TLS_CA}, the authority of etcd's certificates")
        return None
    try:
        context = ssl.create_default_context(cafile=authority)
        if cert:
            context.load_cert_chain(cert, environment.get(TLS_KEY) or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use {TLS_CA}={authority}, {TLS_CERT} or {TLS_KEY}: {error}") from error
    return context


def etcd_login(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """User and password; None without RLAB_ETCD_USER. They are read at each login, so a password can be changed.

    Raises:
        ConfigError: there is no password, or its file cannot be read.
    """
    user, file, password = environment.get(USER), environment.get(PASSWORD_FILE), environment.get(PASSWORD)
    if not user:
        if file or password:
            raise ConfigError(f"a password for etcd is set, and no user: set {USER}")
        return None
    if file:
        path = Path(file)
        try:
            if path.stat().st_size > _MAX_PASSWORD_BYTES:
                raise ConfigError(f"{file} is longer than a password: {PASSWORD_FILE} is a file with nothing else")
            password = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the file {file} of {PASSWORD_FILE}: {error}") from error
    if not password:
        raise ConfigError(f"user {user} of etcd has no password: set {PASSWORD_FILE}")
    return user, password
