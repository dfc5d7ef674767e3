"""The data pipeline on Spark: topics as tables and streams, and what is told from the cluster's trace.

Needs the extra `spark`; brokers, name servers and clients import nothing from here.
"""
