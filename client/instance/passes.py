"""The passes of a client instance: each one that the schedule makes due runs as a separate task.

RocketMQ: RebalanceService, MQClientInstance.doRebalance, where one thread runs the passes of all groups in turn.
"""

from __future__ import annotations

import asyncio
import logging

from client.instance.member import GroupMember, InstanceHost
from client.instance.schedule import RebalancePass, RebalanceSchedule
from client.trigger import Trigger
from model.errors import RlabError
from remoting.deadline_driver import DeadlineDriver

logger = logging.getLogger(__name__)


class PassRunner:
    """Runs the passes of all groups; passes of different groups do not wait for each other."""

    def __init__(self, host: InstanceHost) -> None:
        self._host = host
        self._schedule = RebalanceSchedule(enabled=host.config.triggers)
        self._driver = DeadlineDriver(self._schedule.next_deadline, self._begin_passes)
        self.run = self._driver.run

    def add(self, member: GroupMember) -> None:
        """Begin to run passes for a member, unless its group is scheduled already."""
        if member.group not in self._schedule:
            self._schedule.add(member.group, _now(), interval_s=member.rebalance_interval_s)

    def remove(self, group: str) -> None:
        """Run no more passes for a group."""
        self._schedule.remove(group)

    def wake(self, group: str, trigger: Trigger, cause: str) -> None:
        """Run a pass of a group; nothing for a group that was not added. RocketMQ: rebalanceImmediately."""
        now = _now()
        self._schedule.wake(group, trigger, cause, now=now)
        self._driver.wake_by(now)

    def _begin_passes(self, now: float) -> None:
        if not self._host.background.running:
            return  # the timer ran out between the stop and the end of the driver
        for due in self._schedule.begin_due(now):
            self._host.background.start_soon(self._run_pass, due)

    async def _run_pass(self, due: RebalancePass) -> None:
        balanced = False
        member = self._host.members.get(due.group)
        try:
            if member is not None:
                balanced = await member.rebalance(due)
        except RlabError as error:
            logger.warning("%s: rebalance of group %s: %s", self._host.client_id, due.group, error)
        finally:
            self._schedule.finished(due.group, balanced, _now())
            self._driver.wake_by(self._schedule.next_deadline() or _now())


def _now() -> float:
    return asyncio.get_running_loop().time()
