"""Retention: deletes old segments of the log that no group and no other feature still needs.

`plan.py` decides (pure): which segments are old enough, and which of them are needed. `clock.py` separates jumps of the
wall clock from age (pure). `needs.py` looks up the offset from which each queue is still needed by a group.
`service.py` is the feature: every few seconds, and when a segment is finished, it deletes what the plan says, and names
the group that holds segments back.

Read `plan.py`, then `service.py`. No room imports anything from here, only the broker's options do; a feature that
keeps messages of its own says so by the hook `kept_from`. A broker can be without this room: then it deletes nothing.
"""
