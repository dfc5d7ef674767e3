"""Make the recording of an earlier commit again: `python -m tests.compat.record`.

It is the same, byte for byte, each time: the scenario runs in virtual time. Run it after a change of `scenario.py`.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat.checkout import ROOT, checked_out, environment
from tests.compat.recording import COMMIT, FILE


def main() -> None:
    """Record and write the file."""
    with checked_out(COMMIT) as tree, tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "recording")
        # `tests` has no __init__ file, so both trees make it up; all other packages are those of the first tree.
        env = {**environment(tree), "PYTHONPATH": os.pathsep.join(map(str, (tree, ROOT)))}
        subprocess.run([sys.executable, "-m", "tests.compat.taps", made], cwd=tree, env=env, check=True)
        FILE.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    sys.stdout.write(f"{FILE.relative_to(ROOT)}: {FILE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
