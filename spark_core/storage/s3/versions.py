"""What becomes of a deleted object in an S3 bucket that keeps versions."""

from __future__ import annotations

from typing import Any

from spark_core.storage.s3.errors import CLIENT_ERRORS


def undelete_hint(boto: Any, bucket: str) -> str | None:
    """Tell whether a deletion is a marker here, and how long what is under it stays.

    Args:
        boto: The bucket's client.
        bucket: Its name.

    Returns:
        A sentence for people; None if the bucket keeps no versions or does not say.

    References:
        Amazon S3 user guide, "Working with delete markers".
    """
    try:
        status = boto.get_bucket_versioning(Bucket=bucket).get("Status")
    except CLIENT_ERRORS:
        # Without s3:GetBucketVersioning, or where the store does not know the call, nobody can tell.
        return None
    if status == "Enabled":
        return (
            f"Bucket {bucket} keeps versions: a deleted object comes back when its delete marker is removed, and {_until(boto, bucket)}; "
            "until then it still takes its space."
        )
    if status == "Suspended":
        return (
            f"Bucket {bucket} kept versions once: an object written in that time comes back when its delete marker is removed, "
            "one written later is gone for good."
        )
    return None


def _until(boto: Any, bucket: str) -> str:
    unknown = "how long it can depends on the bucket's lifecycle rules"
    try:
        rules = boto.get_bucket_lifecycle_configuration(Bucket=bucket).get("Rules", [])
    except CLIENT_ERRORS:
        return unknown
    days = [
        rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in rules
        if rule.get("Status") == "Enabled" and "NoncurrentDays" in rule.get("NoncurrentVersionExpiration", {})
    ]
    return f"a lifecycle rule may end that {min(days)} days after the deletion" if days else unknown
