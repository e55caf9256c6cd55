"""Send a bulk deletion to S3, once; the answer for each key is in `deletion_answers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_core.storage.deletion import KeyAnswer
from spark_core.storage.s3.deletion_answers import answers_by_name
from spark_core.storage.s3.errors import CLIENT_ERRORS, failure_of, is_passing


def send_bulk(client: Any, bucket: str, names: Sequence[str]) -> dict[str, KeyAnswer]:
    """Send one request, once.

    S3 confirms a missing key like a deleted one, so `already_gone` comes only from stores that
    report it. On a versioned bucket a deletion is a marker.

    Args:
        client: boto3's, which repeats no deletion.
        bucket: The bucket.
        names: What is deleted in it.

    Returns:
        An answer by name. A store may answer for names that were not in the request.
    """
    try:
        answer = client.delete_objects(
            Bucket=bucket, Delete={"Objects": [{"Key": name} for name in names], "Quiet": False}
        )
    except CLIENT_ERRORS as error:
        failure = failure_of(error)
        return dict.fromkeys(
            names,
            KeyAnswer("refused", str(failure))
            if failure.refuses
            else KeyAnswer("failed", str(failure), passing=is_passing(error, failure)),
        )
    return answers_by_name(names, answer)
