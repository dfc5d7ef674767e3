from __future__ import annotations

import pytest

from broker.store.disk.errors import (
    StoreError,
    StoreFull,
    StoreInUse,
    StoreReadFailed,
    StoreReadOnly,
    StoreSyncFailed,
    StoreUnusable,
    StoreWriteFailed,
)
from model.errors import ConfigError, FlushDiskTimeout, ServiceNotAvailable, StorageFull
from model.response_code import ResponseCode


@pytest.mark.parametrize(
    ("kind", "retryable", "definite"),
    [
        (StoreUnusable, False, True),
        (StoreInUse, False, True),
        (StoreFull, True, True),
        (StoreWriteFailed, True, True),
        (StoreReadFailed, True, True),
        (StoreSyncFailed, True, False),
        (StoreReadOnly, True, True),
    ],
)
def test_each_error_says_whether_to_retry_and_whether_it_happened(
    kind: type[StoreError], retryable: bool, definite: bool
) -> None:
    assert issubclass(kind, StoreError)
    assert (kind.retryable, kind.definite) == (retryable, definite)


def test_errors_that_reach_a_client_have_the_code_of_their_kind() -> None:
    assert StoreFull.code is StorageFull.code
    assert StoreSyncFailed.code is FlushDiskTimeout.code
    assert StoreWriteFailed.code is StoreReadOnly.code is ServiceNotAvailable.code
    assert StoreReadFailed.code is ResponseCode.SYSTEM_ERROR
    assert issubclass(StoreInUse, ConfigError)
