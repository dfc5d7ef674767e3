"""What tests put into the environment of the JVMs that they start."""

from __future__ import annotations

QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""They are over before the second compiler, or a collector with threads of its own, pays: half of the CPU time."""
