"""Where brokers have access control, a replica needs the right to be one."""

from __future__ import annotations

import pytest

from model.errors import NoPermission, NotAuthenticated
from remoting.security.policy import NamePatterns, Rights, User
from testbed.simulation.cluster.access import derived_key, derived_user
from tests.unit.replica.stream.harness import World, simulated

pytestmark = pytest.mark.simulation

RIGHTS = {
    "replica": Rights(replicate=NamePatterns(["b"])),
    "of-another-broker": Rights(replicate=NamePatterns(["c"]), brokers=NamePatterns(["*"]), admin=True),
}
USERS: dict[str, User] = {name: derived_user(name, rights) for name, rights in RIGHTS.items()}


@simulated
async def test_a_replica_follows_with_the_right_and_not_without(world: World) -> None:
    world.access = USERS
    world.keys = {2: derived_key("replica"), 3: derived_key("of-another-broker")}
    master = await world.start_master()
    await world.start_replica(2)
    other = await world.start_replica(3)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    n = master.write(b"x")
    await world.until(lambda: master.committed >= n, 0.5)
    await world.until(lambda: other.ends)
    assert isinstance(other.ends[0], NoPermission)


@simulated
async def test_a_replica_without_a_key_is_refused(world: World) -> None:
    world.access = USERS
    await world.start_master()
    outsider = await world.start_replica(2)
    await world.until(lambda: outsider.ends)
    assert isinstance(outsider.ends[0], NotAuthenticated)


@simulated
async def test_a_replica_whose_right_is_taken_follows_no_longer(world: World) -> None:
    world.access = USERS
    world.keys = {2: derived_key("replica")}
    master = await world.start_master()
    replica = await world.start_replica(2)
    await world.until(lambda: master.sender.row.in_sync == (1, 2))
    assert world.server.gate is not None
    world.server.gate.apply({"replica": derived_user("replica", Rights())})
    await world.until(lambda: master.sender.row.in_sync == (1,), 1)
    assert isinstance(replica.ends[-1], NoPermission)
