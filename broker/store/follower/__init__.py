"""The log of a replica: a copy of the master's, byte by byte, which is cut where the two logs diverge.

`source` is the log as the master sends it, a part of `MessageStore`; `follower_log` writes the copy, with `recovery`,
which opens it, and `syncing`, which makes it durable; `cut` removes the end of a log so that no crash leaves half of it
done; `salvage` keeps the bytes that a cut removes, and reads them; `damage_check` finds damaged segments, and `repair`
replaces one. The epochs that decide where to cut are in `segments/epochs`. Read them in this order.

A replica becomes the master when a `MessageStore` is opened over its directory.
"""
