"""Access control of a simulated cluster: the keys of its servers and of its clients, the same in each run.

SimulatedCluster(simulation, data_dir, **SERVER_ACCESS)
cluster.client_options["key"] = CLIENT_KEY
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from remoting.security.key import Key
from remoting.security.policy import NamePatterns, Rights, User

EVERYTHING = NamePatterns(["*", "SYS_TRACE"])


def derived_key(user: str) -> Key:
    """A key that is not secret: it is computed from the name."""
    return Key(user, sha256(user.encode()).digest())


def derived_user(user: str, rights: Rights, **more: Any) -> User:
    """A user with the key of `derived_key`."""
    return User(name=user, keys=(derived_key(user).hash(),), rights=rights, **more)


CLIENT_KEY = derived_key("client")
_SERVER_KEY = derived_key("server")
_USERS = (
    derived_user("client", Rights(produce=EVERYTHING, consume=EVERYTHING, groups=EVERYTHING)),
    derived_user("server", Rights(brokers=EVERYTHING, admin=True)),
)
SERVER_ACCESS: dict[str, Any] = {"access": {user.name: user for user in _USERS}, "key": _SERVER_KEY}
"""Options of a simulated cluster: its servers and its administration have one user, its clients another one."""
