"""`rlab produce`, `rlab consume`, `rlab message` and `rlab producer`: send, receive, find and show messages.

produce.py    lines or generated messages to a topic, with a bounded number of sends at a time
consume.py    a member of a group that prints messages; `document_of` is the JSON document of a message everywhere
message.py    finds stored messages by key, and shows one by its id
topic.py      creates, lists, shows, scales and deletes topics
producer.py   lists and shows producer groups with their open transactions

Other rooms import `document_of`.
"""
