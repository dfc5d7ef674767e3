"""What tests put into the environment of the processes that they start."""

from __future__ import annotations

QUICK_START = {
    # JVMs are over before the second compiler, or a collector with threads of its own, pays: half of the CPU time.
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
    # Else numpy starts a thread in each of Spark's hundred Python processes, which turns while it waits for work.
    "OMP_NUM_THREADS": "1",
}
