"""Takes the steps of a schedule: each begins when all replicas are in sync, and ends when they are again."""

from __future__ import annotations

from random import Random

import anyio

from model.replica_info import ReplicaInfo, ReplicaSetInfo
from testbed.crash.brokers import BrokerProcess
from testbed.crash.copies.replicas import SET, SetProcesses
from testbed.crash.copies.schedule import Act, CopiesStep
from testbed.crash.copies.watch import Counts, Effects, StepWatch
from testbed.crash.load import SURGE_S, CrashLoad
from testbed.crash.schedule import Moment


class SetSteps:
    """See the module header; `rng` chooses the replica of a step among those that are in sync."""

    def __init__(self, replicas: SetProcesses, load: CrashLoad, watch: StepWatch, rng: Random) -> None:
        self._replicas = replicas
        self._load = load
        self._watch = watch
        self._rng = rng

    async def take(self, step: CopiesStep) -> Effects:
        """Take a step, and return its effects on producers and consumers.

        Raises:
            ServiceNotAvailable: a process did not start, or the replicas did not come into sync again.
            RlabError: the handover was refused.

        Cancellation: a process may be stopped; a paused one goes on.
        """
        await self._load.wait_flow(SET)
        info = await self._replicas.wait_whole()
        others = [each for each in info.replicas if each.replica_id in info.row.in_sync and each.role == "following"]
        chosen = self._rng.choice(others)
        with self._load.turns.surge():
            await anyio.sleep(SURGE_S)
            self._watch.begin(anyio.current_time(), self._counts())
            await self._strike(step.act, info, chosen)
        await anyio.sleep(step.seconds)
        await self._heal(step.act, info, chosen)
        await self._load.wait_flow(SET)
        await self._replicas.wait_whole()
        await self._load.wait_flow(SET)
        return self._watch.end(anyio.current_time(), self._counts())

    def _counts(self) -> Counts:
        messages = self._load.ledger.messages
        return Counts(failed=messages.failed_sends, twice=messages.duplicates)

    async def _strike(self, act: Act, info: ReplicaSetInfo, chosen: ReplicaInfo) -> None:
        replica, master = self._replicas.at(chosen.address), self._master(info)
        match act:
            case Act.KILLED:
                await replica.kill(Moment.LOADED)
            case Act.STOPPED:
                await replica.stop()
            case Act.PAUSED:
                replica.pause()
            case Act.HANDED_OVER:
                await self._replicas.hand_over(chosen.replica_id)
            case Act.MASTER_STOPPED:
                await master.stop()
            case Act.MASTER_KILLED:
                await master.kill(Moment.LOADED)
            case Act.MASTER_PAUSED:
                master.pause()
            case Act.MASTER_LOST:
                await master.kill(Moment.LOADED)
                await self._replicas.lose(master, info.row.master)

    async def _heal(self, act: Act, info: ReplicaSetInfo, chosen: ReplicaInfo) -> None:
        replica, master = self._replicas.at(chosen.address), self._master(info)
        match act:
            case Act.KILLED | Act.STOPPED:
                await replica.start()
            case Act.PAUSED:
                replica.go_on()
            case Act.MASTER_STOPPED | Act.MASTER_KILLED:
                await master.start()
            case Act.MASTER_PAUSED:
                master.go_on()
            case Act.MASTER_LOST:
                await self._replicas.join_again(master, info.row.master)
            case Act.HANDED_OVER:
                pass  # both replicas run

    def _master(self, info: ReplicaSetInfo) -> BrokerProcess:
        return self._replicas.at(next(each.address for each in info.replicas if each.role == "master"))
