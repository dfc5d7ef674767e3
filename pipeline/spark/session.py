"""Starts a Spark session: on a laptop, in continuous integration and on a cluster.

Before the JVM starts, it sets up a Java that Spark accepts, the interpreter and the import path of the Python workers,
addresses on loopback, a quiet log, and folders that are removed afterwards. If `spark-submit` has already started the
JVM, the job uses that JVM unchanged.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from model.errors import ConfigError
from model.extras import extras_command
from model.own_name import IMPORT_FOLDER
from pipeline.spark.class_archive import archive_options, archived_jars
from pipeline.spark.home import spark_home_without_zip
from pipeline.spark.java import ensure_java

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import SparkSession

SHORT_JOB = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""`java_options` for a job of seconds, too short for Java's second compiler to pay off: four sevenths of the CPU time.

Without that compiler Java's default code cache is 48 MB, too small for Spark, hence the second option.
"""
_EXIT_TIMEOUT_S = 20.0
_ARCHIVE_TIMEOUT_S = 300.0
"""Time limit for the end of a JVM that writes the archive of its classes."""
_LOOPBACK = "127.0.0.1"
_MAX_FOLDER_BYTES = 60
"""A path of a socket has at most 103 bytes on macOS, 107 on Linux; Spark's names have 42, with the slash 43."""

_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's default starts a process, `readlink`, for each of the eight files that a batch renames."""

_LOG4J = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
# Named, or the gateway uses the level of a Spark shell, and logs two lines about it at every start.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
# Its errors are raised in Python as well, with the same trace.
logger.microbatch.name = org.apache.spark.sql.execution.streaming
logger.microbatch.level = fatal
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = fatal
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = fatal
logger.writes.name = org.apache.spark.sql.execution.datasources.v2
logger.writes.level = fatal
# The same for the error of a row that cannot be written; other messages of that logger are in no exception.
appender.stderr.filter.task.type = RegexFilter
appender.stderr.filter.task.regex = Aborting task
appender.stderr.filter.task.onMatch = DENY
appender.stderr.filter.task.onMismatch = NEUTRAL
"""


def _build_session(
    app_name: str,
    work_dir: Path,
    *,
    master: str | None,
    driver_memory: str,
    java_options: str,
    conf: Mapping[str, str] | None,
) -> SparkSession:
    """Start a session whose JVM needs `work_dir` until it ends, which is why only `spark_session` is public."""
    # Late, because this function converts a failed import to an error with the remedy.
    try:
        import pyarrow  # noqa: F401, PLC0415 - the source needs it
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"Spark cannot be imported ({error}): {extras_command('spark')}; add spark-jdk too if there is no Java"
        ) from error
    builder = SparkSession.builder.appName(app_name)
    settings = _session_settings(work_dir)
    home: AbstractContextManager[None] = nullcontext()
    if not _is_submitted():
        java = ensure_java()
        master = master or "local[*]"
        is_local = is_local_master(master)
        _prepare_environment(is_local=is_local)
        if is_local:
            home = spark_home_without_zip(work_dir, archived_jars(java))
        settings |= _jvm_settings(work_dir, master, driver_memory, java_options, archive_options(java))
        _quiet_pyspark()
        builder = builder.master(master)
    for name, value in {**settings, **(conf or {})}.items():
        builder = builder.config(name, value)
    try:
        with home:
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise ConfigError(f"Spark's JVM did not start ({error}): see its message on stderr") from error
    except OSError as error:
        raise ConfigError(f"Spark cannot be started ({error}): is SPARK_HOME a folder with Spark in it?") from error


@contextmanager
def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    driver_memory: str = "1g",
    java_options: str = "",
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Run a Spark session while the block runs.

    A session that already runs in this process is used unchanged, and keeps running. Otherwise the JVM ends with the
    block, because its memory, log and folders are fixed at its start and could not change for the next session. Errors
    that leave the block keep their texts.

    Args:
        app_name: shown in Spark's UI and logs.
        master: `local[2]`, `spark://host:7077`, ...; by default the master of spark-submit, else `local[*]`.
        driver_memory: heap of the driver's JVM; no effect under spark-submit, which has its own option for it.
        java_options: further options of the driver's JVM, separated by spaces.
        conf: further settings; they override the settings made here.

    Raises:
        ConfigError: pyspark or Java is missing, or the JVM did not start.
    """
    running = _running_session()
    if running is not None:
        yield running
        return
    work_dir = Path(tempfile.mkdtemp(prefix="rlab-spark-"))
    try:
        session = _build_session(
            app_name, work_dir, master=master, driver_memory=driver_memory, java_options=java_options, conf=conf
        )
        try:
            register_source(session)
            yield session
        except BaseException as error:  # errors request their texts from the JVM, which is about to end
            keep_texts(error)
            raise
        finally:
            session.stop()
            if not _is_submitted():
                _end_jvm(_ARCHIVE_TIMEOUT_S if "ArchiveClassesAtExit" in java_options else _EXIT_TIMEOUT_S)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def register_source(spark: SparkSession) -> None:
    """Register `format("rlab")` in a session, so that several of its streams may start at the same time.

    Spark also finds the source by itself, but then streams can break each other. Race: each stream puts the same four
    variables into the environment of its source when it starts, and all streams of a session share that environment, a
    map without a lock. If two streams add a variable at the same time, the map can get a size that is not the number of
    its entries, and from then on no task of this source can be serialized ("Illegal size 5 of collection, expected 6").
    Existing variables are only replaced, so this function adds them in advance.

    With Spark Connect the environment is in another process, so the source is only registered. The server needs this
    package installed, or on its PYTHONPATH.
    """
    from pyspark import SparkFiles  # noqa: PLC0415 - a command that reports a missing pyspark imports this module

    from pipeline.data_source import RlabDataSource  # noqa: PLC0415
    from pipeline.source.ranges import CORES_VARIABLE  # noqa: PLC0415
    from pipeline.spark.py_files import is_in_py_files, with_package  # noqa: PLC0415

    if not hasattr(spark, "_jsparkSession"):
        spark.dataSource.register(RlabDataSource)
        return
    listed = spark.sparkContext.getConf().get("spark.submit.pyFiles", "") or ""
    is_carried = is_in_py_files(IMPORT_FOLDER, listed.split(","), SparkFiles.getRootDirectory())
    spark.dataSource.register(with_package(RlabDataSource) if is_carried else RlabDataSource)
    environment = source_environment(spark)
    if (spark.sparkContext.master or "").startswith("local"):  # elsewhere executors come and go
        environment.put(CORES_VARIABLE, str(spark.sparkContext.defaultParallelism))
    for name in ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME"):
        environment.put(name, "")


def source_environment(spark: SparkSession) -> JavaObject:
    """Return the `java.util.Map` of variables that Spark passes to the Python processes of `format("rlab")`."""
    manager = spark._jsparkSession.sessionState().dataSourceManager()
    return manager.lookupDataSource("rlab").dataSourceCls().envVars()


def use_session(spark: SparkSession) -> None:
    """Make this the active session of the calling thread; needed before a write in a thread that did not start it.

    Spark looks up the format of a reader in the session of the reader, but the format of a writer in the active session
    of the thread. A new thread has no active session, so every format written in Python is DATA_SOURCE_NOT_FOUND there,
    whether it was registered or not.
    """
    jvm = spark._jvm
    assert jvm is not None, "only a session of Spark Connect has no JVM"
    jvm.SparkSession.setActiveSession(spark._jsparkSession)


def keep_texts(error: BaseException) -> None:
    """Make an error and its causes printable after the JVM has ended.

    pyspark's errors request their texts from the JVM each time; without a JVM, a traceback ends in `<exception str()
    failed>`.
    """
    from pyspark.errors.exceptions.captured import CapturedException  # noqa: PLC0415

    seen: list[BaseException] = []
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        chain += [one.__cause__, one.__context__]
        if isinstance(one, CapturedException):
            _keep_text(one)


def _keep_text(error: CapturedException) -> None:
    text, condition = str(error), error.getCondition()
    # The error itself and not a copy, because callers and tracebacks already refer to it.
    kind = type(error)
    kept = {"__str__": lambda self: text, "getCondition": lambda self: condition}
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    error.__class__ = type(kind.__name__, (kind,), kept | names)


def _running_session() -> SparkSession | None:
    if importlib.util.find_spec("pyspark") is None:
        return None
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return None if SparkContext._active_spark_context is None else SparkSession.builder.getOrCreate()


def _end_jvm(timeout_s: float) -> None:
    from pyspark import SparkContext  # noqa: PLC0415

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()  # the JVM waits for this, and exits
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def is_local_master(master: str) -> bool:
    """Whether driver and executors of this master all run on this machine."""
    return master.startswith("local") or re.match(r"spark://(127\.0\.0\.1|localhost)[:,]", master) is not None


def _is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _session_settings(work_dir: Path) -> dict[str, str]:
    return {
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Created and stored times are absolute; a laptop's time zone must not shift them.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (work_dir / "warehouse").as_uri(),
    }


def _jvm_settings(work_dir: Path, master: str, driver_memory: str, java_options: str, archive: str) -> dict[str, str]:
    log4j = work_dir / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    of_driver = f"-Dlog4j2.configurationFile={log4j.as_uri()} {archive} {_collector(java_options)} {java_options}"
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": of_driver.strip(),
        "spark.local.dir": str(work_dir / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
    }
    if is_local_master(master):
        settings |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
        settings["spark.sql.streaming.checkpointFileManagerClass"] = _CHECKPOINT_FILES
        settings["spark.python.daemon.module"] = "pipeline.spark.daemon"
        settings |= _sockets(work_dir, master)
        if archive:
            settings["spark.executor.extraJavaOptions"] = archive
    return settings


def _sockets(work_dir: Path, master: str) -> dict[str, str]:
    """Return the settings that connect Python workers by Unix domain sockets, which are a quarter faster than TCP.

    Only for executors of this user, because other users cannot open a file in `work_dir`; and only if the paths are
    short enough for the system.
    """
    folder = work_dir / "s"
    if not hasattr(socket, "AF_UNIX") or not master.startswith("local") or len(os.fsencode(folder)) > _MAX_FOLDER_BYTES:
        return {}
    folder.mkdir(mode=0o700)
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _collector(java_options: str) -> str:
    """Return the option for the collector that needs least CPU on two cores: a report takes 5/6 of the time.

    Empty if an option or the environment already names a collector, because two collectors are an error of the JVM.
    """
    names = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    options = " ".join([java_options, *(os.environ.get(name, "") for name in names)])
    return "" if re.search(r"-XX:\+Use\w+GC\b", options) else "-XX:+UseParallelGC"


def _quiet_pyspark() -> None:
    """Stop pyspark from logging every error that it raises as a line of JSON with the stack of the JVM.

    Also stop py4j from logging Ctrl-C with its stack to the root logger.
    """
    from pyspark.logger import PySparkLogger  # noqa: PLC0415

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        # Race: pyspark cancels its jobs in the signal handler, over a connection that may be in the middle of a read.
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, RuntimeError) and "reentrant call" in str(error)):
            return False
        error = error.__context__
    return True


def _prepare_environment(*, is_local: bool) -> None:
    """Set the environment that the JVM and its Python workers inherit."""
    # By default workers run `python3` from the PATH, which is not this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Workers do not inherit sys.path, and the planner of a stream does not see files of addPyFile.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(IMPORT_FOLDER) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(IMPORT_FOLDER), *(path for path in paths if path)])
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
