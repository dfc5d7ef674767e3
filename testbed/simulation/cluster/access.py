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


def made_key(user: str) -> Key:
    """A key that is not secret: it is computed from the name."""
    return Key(user, sha256(user.encode()).digest())


def made_user(user: str, rights: Rights, **more: Any) -> User:
    """A user with the key of `made_key`."""
    return User(name=user, keys=(made_key(user).hash(),), rights=rights, **more)


CLIENT_KEY = made_key("client")
_SERVER_KEY = made_key("server")
_USERS = (
    made_user("client", Rights(produce=EVERYTHING, consume=EVERYTHING, groups=EVERYTHING)),
    made_user("server", Rights(brokers=EVERYTHING, admin=True)),
)
SERVER_ACCESS: dict[str, Any] = {"access": {user.name: user for user in _USERS}, "key": _SERVER_KEY}
"""Options of a simulated cluster: its servers and its administration have one user, its clients another one."""
