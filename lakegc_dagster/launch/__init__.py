"""Start things here: a job in this process, Dagster's UI, Spark's Java, all on one Dagster home.

The code location knows nothing of this room; the command line and the demo use it.
"""
