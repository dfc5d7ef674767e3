"""The register of a name server with access control: only the replicas of a set, and administrators, change its row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from model.errors import InvalidParameter, NoPermission, NotAuthenticated
from model.replica_set import SetChanged
from namesrv.config import NameServerConfig
from namesrv.server import run_name_server
from remoting.request_code import RequestCode
from remoting.security.policy import NamePatterns, Rights
from replica.registers.remote import RemoteRegister
from replica.sets import create, with_options
from testbed.simulation.cluster.access import derived_key, derived_user
from testbed.simulation.kernel.run import Simulation, run_simulation

pytestmark = pytest.mark.simulation

ADDRESS = "10.0.0.1:9876"
RIGHTS = {
    "replica": Rights(brokers=NamePatterns(["broker-a"]), replicate=NamePatterns(["broker-a"])),
    "broker": Rights(brokers=NamePatterns(["broker-a"])),
    "admin": Rights(admin=True),
    "client": Rights(produce=NamePatterns(["*"]), consume=NamePatterns(["*"]), manage=NamePatterns(["*"])),
}
POLICY = {name: derived_user(name, rights) for name, rights in RIGHTS.items()}
ROW = create("broker-a", "h1:1", set_id=7, copies=2)


def test_rows_are_changed_by_replicas_of_the_set_and_by_administrators_alone(tmp_path: Path) -> None:
    async def main(_: Simulation) -> None:
        config = NameServerConfig(listen=ADDRESS, elections=tmp_path / "e", rng=Random(1), access=POLICY)
        async with run_name_server(config):
            async with RemoteRegister([ADDRESS], key=derived_key("replica")) as register:
                row = await register.write(ROW, 0)
                with pytest.raises(NoPermission, match="broker-b"):
                    await register.write(replace(ROW, name="broker-b"), 0)
                with pytest.raises(NoPermission):
                    await register.read("broker-b")
                with pytest.raises(NoPermission):
                    await register.rows()
                with pytest.raises(NoPermission):
                    await register.remove("broker-a", 1)
                # The gate checks the name in the header, so the row may not have another one.
                other = replace(ROW, name="broker-b").to_wire()
                header = {"broker_name": "broker-a", "expected_version": 0}
                with pytest.raises(InvalidParameter, match="the row is of set broker-b"):
                    await register._client.request(ADDRESS, RequestCode.PUT_REPLICA_SET, header, other)
            for user in ("broker", "client"):
                async with RemoteRegister([ADDRESS], key=derived_key(user)) as register:
                    acts = (register.read("broker-a"), register.write(row, 1), register.rows())
                    for act in (*acts, register.remove("broker-a", 1)):
                        with pytest.raises(NoPermission):
                            await act
            async with RemoteRegister([ADDRESS], key=derived_key("stranger")) as register:
                with pytest.raises(NotAuthenticated):
                    await register.read("broker-a")
            async with RemoteRegister([ADDRESS], key=derived_key("admin")) as register:
                assert await register.rows() == [row]
                await register.write(with_options(row, copies=3), 1)
                with pytest.raises(SetChanged, match="has version 2 and not 1"):
                    await register.remove("broker-a", 1)
                await register.remove("broker-a", 2)
                assert await register.rows() == []
            async with RemoteRegister([ADDRESS]) as register:
                with pytest.raises(NotAuthenticated):
                    await register.read("broker-a")

    run_simulation(main)
