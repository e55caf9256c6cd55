"""The garbage-collection engine: reads lakeFS's tables, decides, deletes; never imports dagster."""

__version__ = "0.1.0"
