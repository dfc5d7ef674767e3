"""The clients of `make interop`: each function gets one from its registry, and returns the command that runs it.

A language whose tools are not on this machine is left out, with a line that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.interop.servers import HERE, HOME_VERSIONS, jars_of, say

JAVA_VERSIONS = HOME_VERSIONS or ("4.9.8", "5.3.3")
JAVA_FLAGS = ("-Drocketmq.client.logLevel=ERROR", "-Xmx256m", "-XX:TieredStopAtLevel=1")
CPP_PACKAGE = "rocketmq==0.4.4"
NODE_PACKAGE = "ali-ons@3.12.0"
OURS = [sys.executable, str(HERE / "member.py")]
MQADMIN = "org.apache.rocketmq.tools.command.MQAdminStartup"


def java_of(version: str, directory: Path) -> list[str] | None:
    """The command that runs a program with this version of the client of Java; None if it cannot be had."""
    if shutil.which("javac") is None:
        say(f"Java {version} is left out: javac is not on this machine")
        return None
    jars, classes = jars_of("pom.xml", version, directory / "jars"), directory / "classes"
    if jars is None:
        return None
    sources = [str(source) for source in sorted((HERE / "java").glob("*.java"))]
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", str(classes), *sources], check=True)
    return ["java", *JAVA_FLAGS, "-cp", f"{classes}:{jars}"]


def go_client(directory: Path) -> list[str] | None:
    """The program of the Go client; None if it cannot be had."""
    program = go_program("Go", HERE / "go", directory)
    return None if program is None else [program]


def go_program(title: str, source: Path, directory: Path) -> str | None:
    """Build a program of Go with the modules that it names; None if they or the tools cannot be had."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        say(f"{title} is left out: go is not on this machine")
        return None
    shutil.copytree(source, directory)
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    done = subprocess.run([go, "build", "-o", "features", "."], cwd=directory, env=environment, check=False)
    if done.returncode:
        say(f"{title} is left out: its client could not be had")
        return None
    return str(directory / "features")


def cpp_client(directory: Path) -> list[str] | None:
    """The program of the C++ client, which a package of Python carries; None if it cannot be had."""
    get = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--retries", "1", "--target", str(directory)]
    got = subprocess.run([*get, CPP_PACKAGE], capture_output=True, text=True, check=False)
    program = [sys.executable, "-I", str(HERE / "cpp" / "features.py"), str(directory)]
    done = subprocess.run([*program, "--try"], capture_output=True, text=True, check=False)
    if got.returncode or done.returncode:
        said = (got.stderr + done.stderr).strip()[-200:]
        say(f"C++ is left out: {CPP_PACKAGE} does not install here: {said}")
        return None
    return program


def node_client(directory: Path) -> list[str] | None:
    """The program of the Node.js client; None if it cannot be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        say("Node.js is left out: npm or node is not on this machine")
        return None
    shutil.copytree(HERE / "node", directory)
    done = subprocess.run(["npm", "install", "--silent", NODE_PACKAGE], cwd=directory, check=False)
    if done.returncode:
        say(f"Node.js is left out: {NODE_PACKAGE} does not install here")
        return None
    return ["node", str(directory / "features.js")]
