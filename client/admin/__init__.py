"""Administration for operators and the console: brokers, topics, groups, offsets, messages, dead letters.

Read `admin.py` first: `Admin` has every call, with its errors and the state that a cancelled call leaves. The longer
ones continue in `topics.py`, `groups.py`, `offsets.py`, `group_settings.py`, `messages.py`, `producers.py`,
`dead_letters.py`, `absent.py` and `trace.py`, on the connections of `requests.py`.
`expected_owners.py` decides (pure): from what brokers report, it computes the owner that each queue should have.
`records.py` has the records that calls return.

Nothing here is a member of a group: it takes no lease and commits no offset. Other rooms of the client import nothing
from here; `client/__init__.py` exports `Admin`, and the command line reads the records.
"""
