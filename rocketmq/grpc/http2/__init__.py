"""HTTP/2 as a server of gRPC speaks it: bytes of a connection to calls with messages, and back. Pure; needs `h2`.

`call` is one call; `connection` has the calls of a connection, and its windows; `frame_guard` has the limits against
hostile peers, and nothing of `h2`. Read them in this order.
"""
