"""Clients of scripted servers, as the calls that only read are tested with."""

from tests.spark_core.lakefs.conftest import client, clock

__all__ = ["client", "clock"]
