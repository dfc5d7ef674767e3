"""Sets that start are in `test_every.py`; here is one that does not come into sync."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.admin.admin import Admin
from model.errors import NetworkError, ServiceNotAvailable
from testbed.bench.copies import replica_processes
from testbed.bench.copies.replica_processes import wait_alone, wait_in_sync

pytestmark = pytest.mark.asyncio


class FakeAdmin:
    def __init__(self, *answers: tuple[int, ...] | None) -> None:
        self._answers = list(answers)

    async def replicas(self, broker: str) -> Any:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise NetworkError("it begins a role")
        return SimpleNamespace(row=SimpleNamespace(in_sync=answer, master=1))


async def test_it_waits_until_enough_replicas_are_in_sync() -> None:
    admin = cast(Admin, cast(Any, FakeAdmin((1,), None, (1, 2))))
    assert (await wait_in_sync(admin, 2)).row.in_sync == (1, 2)


async def test_replicas_that_stay_out_of_sync_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_processes, "_JOIN_TIMEOUT_S", 0.05)
    with pytest.raises(ServiceNotAvailable, match="not 2 replicas of broker-a are in sync"):
        await wait_in_sync(cast(Admin, cast(Any, FakeAdmin((1,)))), 2)


async def test_a_replica_that_was_stopped_is_waited_for_until_the_master_has_removed_it() -> None:
    admin = cast(Admin, cast(Any, FakeAdmin((1, 2), None, (1,))))
    assert (await wait_alone(admin)).in_sync == (1,)
