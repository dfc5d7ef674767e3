"""Sending: from a message to its offset on a broker.

`queue_picker.py` decides, and is pure: which queue the next message goes to. `producer.py` is the public class, with
retries and one timeout for all of them; `batcher.py` puts concurrent sends to one queue into one request, and
`unknown_topics.py` finds queues of topics that are not in the route table. `recalling.py` recalls messages.

Read `producer.py`, then the others. Other rooms import `producer.py`, and transactions share requests as
`batcher.py` does.
"""
