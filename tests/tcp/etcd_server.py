"""A real etcd for tests: Debian's, of the system or from its package; started on free ports, killed and restarted.

The package is unpacked into the folder of this Python and not installed: an installation would start a service.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.tcp.rlab_process import TIMEOUT_S, wait_until

PACKAGE = "etcd-server"
UNPACKED = Path(sys.prefix, "etcd")
STARTS = 5
"""Another process may take a port between its choice and the start of etcd."""


@cache
def etcd_program() -> Path:
    """The path of etcd; the test is skipped, with the reason, where it cannot be had."""
    if found := shutil.which("etcd"):
        return Path(found)
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip(f"there is no etcd: install it, for instance the package {PACKAGE} of Debian")
    UNPACKED.mkdir(exist_ok=True)
    with (UNPACKED / "lock").open("w") as lock:  # several processes run tests, and one gets it
        fcntl.flock(lock, fcntl.LOCK_EX)
        program = UNPACKED / "usr/bin/etcd"
        if not program.exists():
            reason = _unpack()
            if not program.exists():
                pytest.skip(f"etcd cannot be had from {PACKAGE}: {reason}")
    return program


def _unpack() -> str:
    """Get the package; returns the last line of what failed."""
    download = ["apt-get", "download", PACKAGE]
    done = _ran(download)
    if done.returncode != 0 and os.getuid() == 0:
        _ran(["apt-get", "update", "-qq"])  # an image without the lists of packages
        done = _ran(download)
    if done.returncode == 0:
        [package, *_] = sorted(UNPACKED.glob(f"{PACKAGE}_*.deb"))
        done = _ran(["dpkg-deb", "--extract", str(package), str(UNPACKED)])
        package.unlink()
    return (done.stderr.strip().splitlines() or ["unknown"])[-1]


def _ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, cwd=UNPACKED, capture_output=True, text=True, timeout=240)


class EtcdServer:
    """One etcd with a directory of its own; `tls` are its certificate, key and authority."""

    def __init__(self, directory: Path, *, tls: tuple[Path, Path, Path] | None = None) -> None:
        self._directory, self._tls = directory, tls
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""
        for _ in range(STARTS):
            port, peer = _two_ports()
            self.address, self._peer = f"127.0.0.1:{port}", f"127.0.0.1:{peer}"
            if self.start():
                return
        pytest.fail(f"etcd does not start: {self.log}")

    @property
    def log(self) -> str:
        """The end of its log."""
        return (self._directory / "log").read_text(errors="replace")[-2000:]

    def start(self) -> bool:
        """Start it, on the same ports and directory each time; returns whether it serves."""
        scheme = "http" if self._tls is None else "https"
        client, peer = f"{scheme}://{self.address}", f"http://{self._peer}"
        options = {
            "name": "test",
            "data-dir": str(self._directory / "data"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"test={peer}",
            "logger": "zap",
            "log-level": "warn",
        }
        if self._tls is not None:
            cert, key, authority = map(str, self._tls)
            options |= {"cert-file": cert, "key-file": key, "trusted-ca-file": authority, "client-cert-auth": "true"}
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [etcd_program(), *(f"--{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )
        wait_until(lambda: self._serves() or self._has_ended())
        return not self._has_ended()

    def kill(self) -> None:
        """End it by SIGKILL. A second call does nothing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(TIMEOUT_S)

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _serves(self) -> bool:
        """Whether it has elected itself: before, reads wait for it."""
        if self._tls is not None:  # urllib has no certificate of a client
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", int(self.address.rpartition(":")[2]))) == 0
        question = Request(f"http://{self.address}/v3/kv/range", data=b'{"key": "YQ=="}')
        try:
            with urlopen(question, timeout=TIMEOUT_S):
                return True
        except HTTPError:
            return True  # it asks for a user
        except (URLError, OSError):
            return False


def _two_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


@contextmanager
def etcd_server(directory: Path, *, tls: tuple[Path, Path, Path] | None = None) -> Iterator[EtcdServer]:
    """Run an etcd while the block runs; it is killed at the end."""
    etcd_program()
    directory.mkdir(exist_ok=True)
    server = EtcdServer(directory, tls=tls)
    try:
        yield server
    finally:
        server.kill()
