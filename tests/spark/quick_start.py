"""What tests put into the environment of the processes that they start."""

from __future__ import annotations

from pipeline.spark.session import SHORT_JOB

INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""Without it Spark writes, compiles and loads Java classes for every query, which pays from a million rows on."""

QUICK_START = {
    # Nor does a collector with threads of its own pay.
    "JAVA_TOOL_OPTIONS": f"{SHORT_JOB} -XX:+UseSerialGC {INTERPRETED}",
    # Else numpy starts a thread in each of Spark's hundred Python processes, which turns while it waits for work.
    "OMP_NUM_THREADS": "1",
}
