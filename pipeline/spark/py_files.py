"""The source of jobs that pass this package with `--py-files`, which Spark does not pass to one of its processes.

That process plans streams. Spark 4.3 starts it with only the PYTHONPATH of its JVM, so it fails to unpickle the source
before any code of this package runs. So a source that came with `--py-files` is pickled as a class that needs only
pyspark and raises an error with the remedy.
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
    "rebalance-lab came with --py-files or addPyFile, which Spark passes to batches, if it is a .zip and not a .whl, "
    "but not to the process that plans streams: install it there, or put it on the PYTHONPATH before Spark's JVM starts"
)


def is_in_py_files(root: PurePath, listed: Sequence[str], received: str) -> bool:
    """Whether a package below `root` is among the `listed` files, or in the folder where Spark `received` files."""
    if received and PurePath(received) in (root, *root.parents):
        return True
    return any(PurePath(path).name == root.name for path in listed if path)


def with_package(source: type[DataSource]) -> type[DataSource]:
    """Return a source like `source`, which raises an error with the remedy if this package cannot be imported.

    The classes are defined in this function, because pickle stores a class of a module by name, but a local class by
    value.
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
            import importlib  # noqa: PLC0415 - in the process that unpickles this

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
            except (
                ImportError
            ):  # the returned reader raises it; raised here, pyspark would hide it behind another error
                return unplannable()

    return CarriedSource
