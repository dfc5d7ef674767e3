"""Consumer groups of a broker: their members, their versions, and the notifications when either changes.

`group.py`, `capacity.py`, `table.py` and `notifications.py` decide (pure): when a heartbeat changes a group, for how
many subscriptions there is room, when a member has left, and when its group is to be notified. `members.py` acts: it
stores groups and members, and sends the notifications. `handlers.py` serves members, and operators who delete a group;
`settings.py` has what operators set for a group; `watch.py` reports groups whose members disagree, and `relay.py`
asks members that are clients of RocketMQ for their running state.

Read `table.py`, `notifications.py`, then `members.py` and `handlers.py`. Other rooms are given `Groups`: they look
members up in `Groups.table` and reach them through `connection_of`. Changes reach them by the hooks `member_left`,
`client_unregistered`, `group_settings_changed` and `group_deleted`.
"""
