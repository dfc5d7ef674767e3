"""The source of jobs that bring this package with `--py-files`, which Spark gives to all processes but one.

That one plans streams. Spark 4.3 starts that process with the PYTHONPATH of its JVM alone, and it fails to unpickle
the source before a line of this package runs. So a source that came with `--py-files` travels as a class that needs
only pyspark and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

_CALLED = (
    "initialOffset",
    "prepareForTriggerAvailableNow",
    "getDefaultReadLimit",
    "latestOffset",
    "partitions",
    "read",
)
_WHY = (
    "rebalance-lab came with --py-files or addPyFile, which Spark gives to batches, if it is a .zip and no .whl, but "
    "not to the process that plans streams: install it there, or put it on the PYTHONPATH before Spark's JVM starts"
)


def came_with_py_files(root: PurePath, listed: Sequence[str], received: str) -> bool:
    """Whether a package below `root` is among the `listed` files, or in the folder where Spark `received` files."""
    if received and PurePath(received) in (root, *root.parents):
        return True
    return any(PurePath(path).name == root.name for path in listed if path)


def carried(source: type[DataSource]) -> type[DataSource]:
    """A source that does what `source` does where this package can be imported, and else names the PYTHONPATH.

    The classes are made here, because pickling takes a class of a module by its name, and one of a function as it is.
    """
    module, name, why = source.__module__, source.__name__, _WHY

    def refuse(*_arguments: object) -> None:
        raise ImportError(why)

    bases = (DataSourceStreamReader, SupportsTriggerAvailableNow)
    unplannable: Any = type("Unplannable", bases, dict.fromkeys(_CALLED, refuse))

    class CarriedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rlab"

        def _real(self) -> DataSource:
            import importlib  # noqa: PLC0415 - in the process that this travels to

            try:
                found = importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module.partition(".")[0]:
                    raise
                raise ImportError(why) from None
            real: DataSource = getattr(found, name)(self.options)
            return real

        def schema(self) -> Any:
            return self._real().schema()

        def reader(self, schema: Any) -> Any:
            return self._real().reader(schema)

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return self._real().writer(schema, overwrite)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return self._real().streamWriter(schema, overwrite)

        def streamReader(self, schema: Any) -> Any:
            try:
                return self._real().streamReader(schema)
            except ImportError:  # it raises in Spark's reader; raised here, pyspark hides it behind an error of its own
                return unplannable()

    return CarriedSource
