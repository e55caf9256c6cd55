"""Where S3 keeps the live inventory table of a bucket."""

from __future__ import annotations

import os

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from spark_core.errors import NotFoundError, SettingsError, TransientError
from spark_core.storage.options import StoreOptions
from spark_core.storage.s3.clients import open_session

_TABLE = "inventory"
_ABSENT = ("NotFoundException", "NoSuchTable")


def metadata_location(arn: str, region: str, bucket: str, options: StoreOptions) -> str:
    """Ask S3 Tables for the newest metadata of a bucket's inventory table.

    Args:
        arn: Of the table bucket.
        region: Its region.
        bucket: The bucket whose objects the table names.
        options: How S3 is reached.

    Returns:
        `s3://.../metadata/N.metadata.json`.

    Raises:
        NotFoundError: If there is no such table.
        SettingsError: If S3 Tables refuses to answer.
        TransientError: If it cannot be asked.
    """
    namespace = f"b_{bucket}"
    try:
        client = open_session(options, os.getpid()).client(
            "s3tables",
            region_name=region,
            config=Config(
                connect_timeout=options.connect_timeout.total_seconds(),
                read_timeout=options.read_timeout.total_seconds(),
                retries={"total_max_attempts": options.max_retries + 1, "mode": "standard"},
            ),
        )
        found = client.get_table(tableBucketARN=arn, namespace=namespace, name=_TABLE)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _ABSENT:
            raise NotFoundError(
                f"{arn} has no table {namespace}.{_TABLE}",
                "Turn on S3 Metadata's live inventory table for the bucket (aws s3api "
                "create-bucket-metadata-configuration).",
            ) from None
        raise SettingsError(
            f"S3 Tables does not tell where {namespace}.{_TABLE} lies ({code})",
            "Allow s3tables:GetTable and s3tables:GetTableData on it.",
        ) from None
    except BotoCoreError as error:
        raise TransientError(
            f"S3 Tables cannot be asked ({type(error).__name__})", "Look at the network, and retry."
        ) from error
    if not found.get("metadataLocation"):
        raise NotFoundError(f"{namespace}.{_TABLE} has no metadata yet", "Wait until it is Active.")
    return str(found["metadataLocation"])
