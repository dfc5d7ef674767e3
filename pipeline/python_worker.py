"""Settings of Spark's Python processes: no search for reference cycles while they read or write, and a quiet end.

Every module that such a process loads from a pickle imports this one.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace, TracebackType


@contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """Switch the search off for the block: with millions of objects it takes most of the time.

    Its state is restored, because a Spark worker runs other code as well.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def end_quietly(daemon: ModuleType) -> None:
    """Let the workers of pyspark's daemon, this module, end quietly when Spark has closed their connection.

    Spark does so with a worker that is idle for a minute, with each worker at the end of a session, of a stream, and
    of a query that needs no more rows. The worker's last answer cannot be sent then, and pyspark prints a traceback of
    that: always over a Unix domain socket, and now and then over TCP. Errors of the worker's own work are not affected,
    because pyspark sends them to Spark.
    """
    # The module `traceback` of the daemon is replaced, because the call is in the middle of the daemon's loop.
    quiet = SimpleNamespace(print_exc=lambda: _print_exception(*sys.exc_info()), format_exc=traceback.format_exc)
    vars(daemon)["traceback"] = quiet


def _end_quietly_as_worker() -> None:
    """Do this in the processes for planning and for the offsets of streams, which do not come from our daemon.

    No setting of Spark's replaces their main modules.
    """
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", "")
    if name == "pyspark.daemon":
        end_quietly(main)
    elif name.startswith("pyspark.sql."):
        sys.excepthook = _print_exception


def _print_exception(
    kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
) -> None:
    if not isinstance(error, ConnectionError):
        traceback.print_exception(kind, error, trace)


_end_quietly_as_worker()
