"""Dagster's resource for S3 as credentials of the stores.

A code location that has such a resource need not repeat it in the settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from spark_core.storage import StoreOptions

if TYPE_CHECKING:
    # The import takes most of a second, so only users of such a resource pay for it.
    from dagster_aws.s3 import S3Resource


class NoS3(dg.ConfigurableResource[Any]):
    """Stands for no S3 resource: the settings and the AWS chain give the credentials."""


def with_s3(options: StoreOptions, s3: S3Resource | NoS3) -> StoreOptions:
    """Put what an S3 resource says over the options; what it leaves open stays.

    Args:
        options: From the settings.
        s3: As Dagster users configure it; without keys the AWS chain is used (environment, profile,
            role).
    """
    if isinstance(s3, NoS3):
        return options
    return replace(
        options,
        s3_endpoint=s3.endpoint_url or options.s3_endpoint,
        s3_region=s3.region_name or options.s3_region,
        s3_profile=s3.profile_name or options.s3_profile,
        s3_access_key_id=s3.aws_access_key_id or options.s3_access_key_id,
        s3_secret_access_key=s3.aws_secret_access_key or options.s3_secret_access_key,
        s3_session_token=s3.aws_session_token or options.s3_session_token,
    )
