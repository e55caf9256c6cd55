"""The terminal of the command line: what is written to it, and to files beside it.

Importing it loads neither Dagster nor Spark.
"""
