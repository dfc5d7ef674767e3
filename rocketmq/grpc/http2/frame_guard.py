"""FrameGuard: the limits of one HTTP/2 connection against peers that send much and ask for little. Pure.

It reads the nine bytes before each frame, and nothing else, before the frames are decoded. A peer is allowed a number
of frames that do no work, and of calls that it resets; each answered call gives some of both back. So no clock is
needed, and a client that calls may go on for ever:

    1,024 frames: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, HEADERS, CONTINUATION, unknown ones, and DATA of a few bytes
                  that ends no call (CVE-2019-9512, -9513, -9515, -9518); + 64 for each answered call. Each value in
                  a SETTINGS frame counts as one more
      128 resets  (rapid reset, CVE-2023-44487; CVE-2019-9514), also those that the peer makes this side send by frames
                  that no call may have (CVE-2025-8671); + 1 for each answered call
   16,384 bytes   of one list of headers, whatever its number of frames (CONTINUATION, CVE-2024-27316)

The headers of a list unpacked (HPACK bombs), the calls at a time, the bytes of messages, and the time for each of them
are limited in `http2`.
"""

from __future__ import annotations

from model.errors import ProtocolError
from model.grpc_limits import (
    HTTP2_RESETS_PER_ANSWER,
    HTTP2_SPARE_PER_ANSWER,
    MAX_HTTP2_HEADER_BYTES,
    MAX_HTTP2_RESETS,
    MAX_HTTP2_SPARE_FRAMES,
    MIN_HTTP2_DATA_BYTES,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every HTTP/2 connection."""
_HEAD_BYTES = 9
_MAX_FRAME_BYTES = 16_384
"""As HTTP/2 has it without other settings; a longer one would be kept until it is whole."""
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _CONTINUATION = 0, 1, 3, 4, 9
_SETTING_BYTES = 6
_END_STREAM, _END_HEADERS = 0x1, 0x4


class FrameGuard:
    """Counts the frames of one peer."""

    __slots__ = ("_head", "_header_bytes", "_resets", "_skip", "_spare")

    def __init__(self) -> None:
        self._head = b""
        self._skip = len(PREFACE)  # bytes up to the next frame
        self._header_bytes = 0
        self._spare = MAX_HTTP2_SPARE_FRAMES
        self._resets = MAX_HTTP2_RESETS

    def check(self, data: bytes) -> None:
        """Count the frames that begin in the next bytes of the stream.

        Raises:
            ProtocolError: the peer has sent more than its share; close the connection.
        """
        position, end = self._skip, len(data)
        if self._head:
            data, position = self._head + data, 0
            end += len(self._head)
            self._head = b""
        while end - position >= _HEAD_BYTES:
            length = int.from_bytes(data[position : position + 3])
            self._count(data[position + 3], data[position + 4], length)
            position += _HEAD_BYTES + length
        if position < end:
            self._head, self._skip = data[position:end], 0
        else:
            self._skip = position - end

    def _count(self, kind: int, flags: int, length: int) -> None:
        if length > _MAX_FRAME_BYTES:
            raise ProtocolError(f"a frame of {length} bytes was announced, more than the {_MAX_FRAME_BYTES} allowed")
        if kind in (_HEADERS, _CONTINUATION):
            self._header_bytes = length + (0 if kind == _HEADERS else self._header_bytes)
            if self._header_bytes > MAX_HTTP2_HEADER_BYTES:
                raise ProtocolError(f"the headers of a call are longer than the {MAX_HTTP2_HEADER_BYTES} bytes allowed")
        elif kind == _RST_STREAM:
            self.record_reset()
        elif kind == _SETTINGS:
            self._spare -= length // _SETTING_BYTES
        elif kind == _DATA and (length >= MIN_HTTP2_DATA_BYTES or flags & _END_STREAM):
            return
        self._spare -= 1
        if self._spare < 0:
            raise ProtocolError(
                f"{MAX_HTTP2_SPARE_FRAMES} frames without a call are too many: PING, SETTINGS, WINDOW_UPDATE and others"
            )

    def record_reset(self) -> None:
        """Record a call that is reset: by the peer, or here because of a frame of the peer that no call may have.

        Raises:
            ProtocolError: the peer has reset more than its share; close the connection.
        """
        self._resets -= 1
        if self._resets < 0:
            raise ProtocolError(
                f"{MAX_HTTP2_RESETS} more calls were reset than answered: wait for answers, or use longer deadlines"
            )

    def record_answer(self) -> None:
        """Record an answered call: the peer may send more."""
        self._spare = min(self._spare + HTTP2_SPARE_PER_ANSWER, MAX_HTTP2_SPARE_FRAMES)
        self._resets = min(self._resets + HTTP2_RESETS_PER_ANSWER, MAX_HTTP2_RESETS)

    def record_ping(self) -> None:
        """Record a sent PING, which the peer acknowledges with a frame."""
        self._spare = min(self._spare + 1, MAX_HTTP2_SPARE_FRAMES)

    def record_data_frames(self, n_frames: int) -> None:
        """Record sent DATA frames; for each the peer may return two WINDOW_UPDATE frames."""
        self._spare = min(self._spare + 2 * n_frames, MAX_HTTP2_SPARE_FRAMES)
