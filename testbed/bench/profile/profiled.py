"""A module of ours with a sampler, in a process of its own.

    python -m testbed.bench.profile.profiled samples.json rlab broker --listen 127.0.0.1:0

SIGUSR1 starts the sampler, SIGUSR2 stops it and writes all samples so far into the file.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from testbed.bench.profile.sampler import sample_on_signals

if __name__ == "__main__":
    file, module = sys.argv[1:3]
    del sys.argv[1:3]
    sample_on_signals(Path(file))
    runpy.run_module(module, run_name="__main__", alter_sys=True)
