"""The Broker: consumer groups, queue locks, offsets, long polls, topics and the message store."""
