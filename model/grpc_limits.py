"""The bounds of one connection of gRPC clients, each with its reason; `limits.py` has the rules of names."""

from __future__ import annotations

MAX_GRPC_MESSAGE_BYTES = (4 * 1024 + 64) * 1024
"""Longest message of a gRPC call: one body (`MAX_BODY_BYTES`) with its properties."""
MAX_HTTP2_CALLS = 256
"""Calls that a connection may have at a time, each with up to 64 KiB of a message: a client has one for each queue that
it receives from, and one for each thread that sends."""
MAX_HTTP2_HEADER_BYTES = 16 * 1024
"""The headers of a call, packed and unpacked; a stock client sends 1 KiB."""
HTTP2_CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024
"""Bytes of messages that may be on their way over one connection."""
MAX_GRPC_CLIENTS = 64
"""Clients of one connection whose subscriptions, or producer groups, are known: clients of one process share it."""
MAX_HTTP2_UNREAD_ANSWERS = 256
"""Answers of one connection whose client is asked whether it has read them; of more the oldest count as unread."""
MAX_HTTP2_SPARE_FRAMES = 1_024
HTTP2_SPARE_PER_ANSWER = 64
"""Frames without a call that a peer may send before the first answer, and further ones for each answered call."""
MAX_HTTP2_RESETS = 128
HTTP2_RESETS_PER_ANSWER = 1
"""Calls that a peer may reset before their end, and further ones for each answered call."""
SILENT_PEER_S = 10.0
"""How long a gRPC client may send nothing before it is asked for a sign of life: stock clients send a heartbeat as
often. The silence of one is measured in these steps."""
SILENT_PEER_TIMEOUT_S = 20.0
"""How long a server waits for that sign, as other servers of gRPC do by default; then it closes the connection."""
MIN_HTTP2_DATA_BYTES = 1_024
"""A frame with fewer bytes of a message, and not the last one, counts as a frame without a call."""
