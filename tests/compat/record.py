"""Make the recordings of an earlier commit again: `python -m tests.compat.record`.

What was said is the same, byte for byte, each time: the scenario runs in virtual time. Run it after a change of
`scenario.py` or `stored.py`.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compat import stored
from tests.compat.checkout import ROOT, checked_out, environment
from tests.compat.recording import COMMIT, FILE


def main() -> None:
    """Record and write the files."""
    with checked_out(COMMIT) as tree, tempfile.TemporaryDirectory() as folder:
        # `tests` has no __init__ file, so both trees make it up; all other packages are those of the first tree.
        env = {**environment(tree), "PYTHONPATH": os.pathsep.join(map(str, (tree, ROOT)))}
        for module, file in (("taps", FILE), ("stored", stored.FILE)):
            made = Path(folder, module)
            subprocess.run([sys.executable, "-m", f"tests.compat.{module}", made], cwd=tree, env=env, check=True)
            file.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
            sys.stdout.write(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
