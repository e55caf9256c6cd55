"""The garbage-collection engine: reads lakeFS's tables, decides, deletes, reports.

This package never hears of Dagster.
"""

__version__ = "0.1.0"
