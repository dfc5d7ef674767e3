"""Registers `format("rlab")`: Spark imports every module named `pyspark_*` and adds its DefaultSource."""

from __future__ import annotations

from pipeline.data_source import RlabDataSource as DefaultSource

__all__ = ["DefaultSource"]
