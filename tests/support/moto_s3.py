"""An S3 server in this process, on loopback and a free port, for tests of whole runs as well as of
the store.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from threading import Lock
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

from spark_core.storage import StoreOptions

ACCESS_KEY_ID = "AKIAMOTOTESTKEYID000"
SECRET_ACCESS_KEY = "moto/secret+ACCESS/key0000000000000000000"

_numbers = itertools.count(1)

# Each session of boto3 reads AWS's models anew, a tenth of a second of a processor; in one process
# they are read once.
botocore.session.create_loader = cache(botocore.session.create_loader)

# The server looks for an object and writes it in two steps; S3 does both in one.
_put_object, _putting = S3Response.put_object, Lock()


def _put_at_once(request: S3Response) -> Any:
    with _putting:
        return _put_object(request)


@dataclass(frozen=True)
class MotoS3:
    """A running server; buckets are made on it by `bucket`."""

    endpoint: str

    def options(self, **changes: Any) -> StoreOptions:
        """Options that reach this server, impatient enough for tests."""
        chosen: dict[str, Any] = {
            "s3_endpoint": self.endpoint,
            "s3_access_key_id": ACCESS_KEY_ID,
            "s3_secret_access_key": SECRET_ACCESS_KEY,
            "allow_http": True,
            "max_retries": 1,
            "connect_timeout": timedelta(seconds=2),
            "read_timeout": timedelta(seconds=10),
        }
        return StoreOptions(**{**chosen, **changes})

    def client(self) -> Any:
        """A plain client, to put what a test needs and to look at what is there."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    @cached_property
    def _client(self) -> Any:
        return self.client()

    def bucket(self, region: str = "us-east-1") -> str:
        """Make a bucket with a name of its own and return the name."""
        name = f"lakegc-{next(_numbers)}"
        where = (
            {}
            if region == "us-east-1"
            else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        )
        self._client.create_bucket(Bucket=name, **where)
        return name


@contextmanager
def moto_s3() -> Iterator[MotoS3]:
    """Start a server, and stop it at the end of the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    S3Response.put_object = _put_at_once
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield MotoS3(f"http://127.0.0.1:{server.get_host_and_port()[1]}")
    finally:
        server.stop()
