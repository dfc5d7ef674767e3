"""Assignment by the broker: members that name the strategy `broker` ask their coordinator for their queues.

`group_assignments.py` decides (pure): one versioned assignment for each group, made by `sharing.py` with the least
moves (`min_cost_flow.py`), also for members that pop. `handlers.py` is the feature: it answers members, keeps the
request modes that operators set (pull or pop), and lets members ask again when the assignment has changed.

Read `group_assignments.py`, then `handlers.py`; `sharing.py` explains a result. No room imports anything from here:
the hook `is_popped` reports to leases whether a group was set to pop a topic. A broker can be without this room.
"""
