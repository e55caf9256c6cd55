"""Start things here: a job in this process, or Dagster's UI, on one Dagster home.

The code location knows nothing of this room; the command line and the demo use it.
"""
