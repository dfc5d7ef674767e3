"""Makes a release of the version in pyproject.toml: `make release`, or `python -m tools.release`.

    dist/rebalance_lab-0.1.0-py3-none-any.whl    the wheel; it is installed into an empty folder, and prints its version
    dist/rebalance_lab-0.1.0.tar.gz              the source archive
    dist/rebalance-lab-0.1.0.image.tar.gz        the image of the Dockerfile, if a docker daemon answers
    dist/NOTES.md                                the section of CHANGELOG.md
    dist/SHA256SUMS                              the checksum of each, as `sha256sum --check` reads it

It refuses a tree with changes, and a version without notes. It publishes nothing: docs/releasing.md has
the steps after it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CHUNK_BYTES = 1024 * 1024


class NotReleasable(Exception):
    """The release cannot be made; the error says what to do."""


def notes_of(changelog: str, version: str) -> str:
    """The section of a version.

    Raises:
        NotReleasable: there is no such section, or it is empty.
    """
    match = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    notes = match[1].strip() if match else ""
    if not notes:
        raise NotReleasable(f"CHANGELOG.md has no section '## {version}' with text: write it, or change the version")
    return f"# rebalance-lab {version}\n\n{notes}\n"


def checksums(files: Iterable[Path]) -> str:
    """A line for each file, as `sha256sum --check` reads it."""
    lines = []
    for file in sorted(files):
        digest = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(CHUNK_BYTES):
                digest.update(chunk)
        lines.append(f"{digest.hexdigest()}  {file.name}\n")
    return "".join(lines)


def version() -> str:
    """The version in pyproject.toml."""
    version_text: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version_text


def _run(*command: str | Path, **env: str) -> str:
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReleasable(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _build(number: str) -> None:
    """Build wheel and source archive, with the times of the commit, and run the wheel alone."""
    commit_time = _run("git", "log", "-1", "--format=%ct")
    _run(sys.executable, "-m", "build", "--outdir", DIST, SOURCE_DATE_EPOCH=commit_time)
    _run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    [wheel] = DIST.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, wheel)
        # -P: no module of this tree is found; the wheel's dependencies are those of this environment.
        output = _run(sys.executable, "-P", "-m", "rlab", "--version", PYTHONPATH=folder)
    if number not in output:
        raise NotReleasable(f"the version of the wheel is {output!r}, not {number}")
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)


def _image(number: str) -> str:
    """Build and save the image; returns the reason why that failed, or ""."""
    docker = shutil.which("docker")
    if docker is None:
        return "there is no docker on this machine"
    if subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        return "the docker daemon does not answer"
    name = f"rebalance-lab:{number}"
    _run(docker, "build", "--tag", name, ".")
    with tempfile.NamedTemporaryFile(suffix=".tar") as saved:
        _run(docker, "save", "--output", saved.name, name)
        with gzip.open(DIST / f"rebalance-lab-{number}.image.tar.gz", "wb") as packed:
            shutil.copyfileobj(saved, packed, CHUNK_BYTES)
    return ""


def main() -> int:
    """Make the release; returns the exit code."""
    number = version()
    try:
        notes = notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), number)
        if changed := _run("git", "status", "--porcelain"):
            raise NotReleasable(f"commit first, a release is made from a commit:\n{changed}")
        shutil.rmtree(DIST, ignore_errors=True)
        _build(number)
        missing = _image(number)
        (DIST / "NOTES.md").write_text(notes, encoding="utf-8")
        sums = checksums(DIST.iterdir())
        (DIST / "SHA256SUMS").write_text(sums, encoding="utf-8")
    except NotReleasable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    _say(f"{sums}version {number} of {_run('git', 'rev-parse', '--short', 'HEAD')} is in dist/")
    if missing:
        _say(f"without an image: {missing}; `docker build -t rebalance-lab:{number} .` makes it elsewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main())
