"""The errors of the message store: who has to act, and which state the records are in afterwards.

StoreError
+-- StoreUnusable            (ConfigError)          the directory cannot be used: change something, start again
|   +-- StoreNotADirectory
|   +-- StoreNotWritable
|   +-- StoreForeign                                the directory holds something else
|   +-- StoreFormatUnsupported                      written by another version
|   +-- StoreInUse                                  by another process
|   +-- StoreOfSet                                  a replica's, to be opened without its set
|   +-- StoreEpochTooLow                            the log has a later epoch of its set
|   +-- StoreCutUnreadable                          a cut of the log was begun, and its marker is damaged
+-- StoreFull                (StorageFull)          no room; nothing of the batch is stored; works again with room
+-- StoreWriteFailed         (ServiceNotAvailable)  the disk takes nothing now; nothing of the batch is stored
+-- StoreReadFailed          (ServerError)          an I/O error; may be retried
+-- StoreBytesRefused        (ServerError)          bytes of another replica do not fit the log; nothing has changed
+-- StoreSyncFailed          (FlushDiskTimeout)     written, but perhaps not durable: indefinite
+-- StoreReadOnly            (ServiceNotAvailable)  a sync failed earlier; reads go on, writes need a restart
    +-- StoreLockLost                               another broker may write there now; this one stops
"""

from __future__ import annotations

from model.errors import ConfigError, FlushDiskTimeout, RlabError, ServerError, ServiceNotAvailable, StorageFull
from model.response_code import ResponseCode


class StoreError(RlabError):
    """Base of all errors of the message store."""


class StoreUnusable(StoreError, ConfigError):
    """The store cannot be opened in the directory that the configuration names."""


class StoreNotADirectory(StoreUnusable):
    """The path, or a part of it, is a file."""


class StoreNotWritable(StoreUnusable):
    """This user may not write there, or the file system is read-only."""


class StoreForeign(StoreUnusable):
    """The directory has content that no message store wrote."""


class StoreFormatUnsupported(StoreUnusable):
    """The files are in a format that this version does not know."""


class StoreInUse(StoreUnusable):
    """Another process has the directory open."""


class StoreOfSet(StoreUnusable):
    """The directory belongs to a set of replicas, and is to be opened without it."""


class StoreEpochTooLow(StoreUnusable):
    """The register of the set gave an epoch that the log has already: it is an older copy of the register."""


class StoreCutUnreadable(StoreUnusable):
    """A crash came into a cut of the log, and the marker that repeats it is damaged."""


class StoreFull(StoreError, StorageFull):
    """The disk or the quota is full. Nothing of the batch was stored; it works again as soon as there is room."""


class StoreWriteFailed(StoreError, ServiceNotAvailable):
    """An I/O error, or a read-only file system. Nothing of the batch was stored; it works again once writes do."""


class StoreReadFailed(StoreError, ServerError):
    """The system could not read a file of the log."""

    code = ResponseCode.SYSTEM_ERROR


class StoreBytesRefused(StoreError, ServerError):
    """Bytes that another replica sent are damaged, or do not continue this log. Nothing has changed."""

    code = ResponseCode.SYSTEM_ERROR


class StoreSyncFailed(StoreError, FlushDiskTimeout):
    """Records written since the last sync may or may not survive a loss of power."""


class StoreReadOnly(StoreError, ServiceNotAvailable):
    """A sync failed earlier. The system drops pages that it could not write, so a later success proves nothing."""


class StoreLockLost(StoreReadOnly):
    """The lock file was removed or replaced: another broker may write there, so this one no longer writes."""
