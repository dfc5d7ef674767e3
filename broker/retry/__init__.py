"""Retry: delayed messages, failed messages that consumers send back, and the marks of re-sent dead-letter messages.

`delay_table.py` (pure) decides which delayed messages are due, and from where on a restart has to read the log.
`delays.py` stores and delivers them, `send_back.py` answers CONSUMER_SEND_MSG_BACK: a failed message is delayed until
its next attempt, or goes to the DLQ. `recalls.py` answers RECALL_MESSAGE, `dead_letters.py` MARK_DEAD_LETTERS. Each of
the four is a feature.

Read in this order: send_back, delays, delay_table, recalls, dead_letters. Other rooms may import `Delays`: sends with a
delay and searches for delayed messages need it. POP does not pass here: it redelivers from the queue itself
(`broker/pop/`).
"""
