"""What the name of a bucket alone tells of it."""

from __future__ import annotations

from spark_core.addresses.namespace import Namespace

# How the name of every directory bucket of S3 ends (user guide, "Directory bucket naming rules").
DIRECTORY_BUCKET = "--x-s3"


def is_directory_bucket(namespace: Namespace) -> bool:
    """Say whether a namespace lies in a directory bucket of S3, which its name alone tells.

    Examples:
        >>> is_directory_bucket(Namespace.parse("s3://lake--use1-az4--x-s3/repo"))
        True
        >>> is_directory_bucket(Namespace.parse("s3://lake/repo--x-s3"))
        False
    """
    return namespace.scheme == "s3" and namespace.bucket.endswith(DIRECTORY_BUCKET)
