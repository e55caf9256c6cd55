"""The Spark session, the cluster behind it, and the one way into it and out of it: tasks and Arrow.

Knows nothing of what the tasks do.
"""
