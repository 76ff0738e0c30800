"""What streams, connect and mirror share on Spark: the session, topics as DataFrames, the sink, progress.

Spark is imported only under pipelines/, streams/, connect/ and mirror/, and only when one of them runs.
"""
