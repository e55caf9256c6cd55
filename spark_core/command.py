"""The commands of `lakegc`, under the name by which programs for clusters start them."""

from spark_core.cli.main import main

__all__ = ["main"]
