"""The pytest plugin by its public name, for `-p pytest_rlab` and for the types of its fixtures.

The plugin is `testbed/pytest_plugin.py`. pytest loads this module alone, so each fixture and hook is registered once.
"""

from __future__ import annotations

from testbed.cluster.control.remote import ControlError
from testbed.cluster.control.remote import RemoteCluster as Cluster
from testbed.cluster.control.verbs import BegunFault as Fault
from testbed.cluster.control.verbs import NotReached
from testbed.pytest_plugin import *  # noqa: F403  # each fixture and hook
from testbed.pytest_plugin import DeliveryVerdict as Verdict

__all__ = ["Cluster", "ControlError", "Fault", "NotReached", "Verdict"]
