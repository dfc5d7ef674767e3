"""Types of the part of msgpack 1.x that this project may use; msgpack ships none and no stub package exists.

What is unpacked is `object`, not `Any`: it came from a peer, and mypy then asks for every check that the wire needs.
"""

from collections.abc import Callable, Iterator
from typing import IO, Self

from typing_extensions import Buffer

from msgpack.exceptions import BufferFull as BufferFull
from msgpack.exceptions import ExtraData as ExtraData
from msgpack.exceptions import FormatError as FormatError
from msgpack.exceptions import OutOfData as OutOfData
from msgpack.exceptions import StackError as StackError
from msgpack.exceptions import UnpackException as UnpackException

version: tuple[int, int, int]

class ExtType:
    code: int
    data: bytes
    def __new__(cls, code: int, data: bytes) -> Self: ...

def packb(
    o: object,
    *,
    default: Callable[[object], object] | None = ...,
    use_single_float: bool = ...,
    use_bin_type: bool = ...,
    strict_types: bool = ...,
    datetime: bool = ...,
    unicode_errors: str | None = ...,
    buf_size: int = ...,
) -> bytes: ...
def unpackb(
    packed: Buffer,
    *,
    use_list: bool = ...,
    raw: bool = ...,
    timestamp: int = ...,
    strict_map_key: bool = ...,
    object_hook: Callable[[dict[object, object]], object] | None = ...,
    object_pairs_hook: Callable[[list[tuple[object, object]]], object] | None = ...,
    list_hook: Callable[[list[object]], object] | None = ...,
    unicode_errors: str | None = ...,
    ext_hook: Callable[[int, bytes], object] = ...,
    max_str_len: int = ...,
    max_bin_len: int = ...,
    max_array_len: int = ...,
    max_map_len: int = ...,
    max_ext_len: int = ...,
) -> object: ...

class Packer:
    def __init__(
        self,
        *,
        default: Callable[[object], object] | None = ...,
        use_single_float: bool = ...,
        autoreset: bool = ...,
        use_bin_type: bool = ...,
        strict_types: bool = ...,
        datetime: bool = ...,
        unicode_errors: str | None = ...,
        buf_size: int = ...,
    ) -> None: ...
    def pack(self, obj: object) -> bytes: ...
    def pack_array_header(self, size: int) -> bytes: ...
    def pack_map_header(self, size: int) -> bytes: ...
    def pack_ext_type(self, typecode: int, data: bytes) -> bytes: ...
    def bytes(self) -> bytes: ...
    def reset(self) -> None: ...
    def getbuffer(self) -> memoryview: ...

class Unpacker:
    def __init__(
        self,
        file_like: IO[bytes] | None = ...,
        *,
        read_size: int = ...,
        use_list: bool = ...,
        raw: bool = ...,
        timestamp: int = ...,
        strict_map_key: bool = ...,
        object_hook: Callable[[dict[object, object]], object] | None = ...,
        object_pairs_hook: Callable[[list[tuple[object, object]]], object] | None = ...,
        list_hook: Callable[[list[object]], object] | None = ...,
        unicode_errors: str | None = ...,
        max_buffer_size: int = ...,
        ext_hook: Callable[[int, bytes], object] = ...,
        max_str_len: int = ...,
        max_bin_len: int = ...,
        max_array_len: int = ...,
        max_map_len: int = ...,
        max_ext_len: int = ...,
    ) -> None: ...
    def feed(self, next_bytes: Buffer) -> None: ...
    def read_bytes(self, nbytes: int) -> bytes: ...
    def read_array_header(self) -> int: ...
    def read_map_header(self) -> int: ...
    def skip(self) -> None: ...
    def tell(self) -> int: ...
    def unpack(self) -> object: ...
    def __iter__(self) -> Iterator[object]: ...
    def __next__(self) -> object: ...
