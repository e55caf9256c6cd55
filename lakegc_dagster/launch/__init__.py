"""Start Dagster's UI here, on one Dagster home.

The code location knows nothing of this room; `lakegc ui` and the demo use it.
"""
