"""Spark sessions that start on any machine, and start fast.

`session.py` is the entry point. It finds a Java (`java.py`), prepares a SPARK_HOME (`home.py`), and uses an archive of
Spark's classes if there is one (`class_archive.py`), which `make_archive.py` makes on request. `daemon.py` starts
Python workers that already have the imports, `py_files.py` handles packages passed with --py-files.
"""
