"""POP: members pop single messages of any queue, and acknowledge each of them; no member owns a queue.

`window.py` (pure) decides for one queue of one group: which messages are invisible, due for redelivery or acknowledged.
`ledger.py` (pure) ties the windows of a broker together, `journal.py` (pure) is their stored form, `request.py` reads
the header of a pop. `tokens.py`, `reads.py` and `store.py` draw tokens, read messages and store changes; `forwarder.py`
moves messages to the DLQ or the retry topic, `delivery.py` delivers, `answers.py` answers, `renewals.py` extends the
messages of connected clients, `handles.py` serves the requests that name messages, and `service.py` is the feature: it
serves the other requests, parks pops and wakes them. Each file calls only those named before it, but for callbacks of
the forwarder and the handles.

Read in this order: window, ledger, service, delivery, forwarder; then the others. Outside this room only
`broker/broker.py` imports from it: `Pop`. Everything else reaches it through hooks.
"""
