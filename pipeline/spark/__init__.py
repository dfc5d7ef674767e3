"""Spark sessions that start anywhere, and start soon.

`session.py` is the entrance. It finds a Java (`java.py`), prepares a SPARK_HOME (`home.py`), and uses an archive of
Spark's classes if there is one (`class_archive.py`), which `make_archive.py` makes on request. `daemon.py` starts
Python workers with their imports done, `py_files.py` is for what comes with --py-files.
"""
