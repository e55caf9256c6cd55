"""What may be considered of one object, by its name and age: the oracle of the rule for columns."""

from __future__ import annotations

from datetime import datetime

from spark_core.addresses.candidates import (
    CANDIDATE,
    INHERITED,
    PROTECTED,
    STRANGER,
    UPLOAD,
    YOUNG,
    Limits,
)
from spark_core.addresses.collectable import (
    LEFT_BY_UPLOAD,
    SIGNATURE,
    arrow_pattern,
    is_collectable,
    is_given_name,
)
from spark_core.addresses.xids import XID
from tests.support.xid_times import xid_time

_UPLOAD = arrow_pattern(rf"/{XID}{SIGNATURE}?{LEFT_BY_UPLOAD}$")
_ENDING = arrow_pattern(f"{LEFT_BY_UPLOAD}$")


def standing(address: str, modified: datetime, limits: Limits) -> str:
    """Say what `candidates.standings` says of one object, the rule written once more."""
    left = bool(_UPLOAD.search(address))
    named = xid_time(_ENDING.sub("", address) if left else address)
    earliest, latest = min(modified, named or modified), max(modified, named or modified)
    if not is_collectable(address, flat=limits.flat):
        return PROTECTED
    if latest >= limits.cutoff:
        return YOUNG
    if left and latest >= limits.uploads_cutoff:
        return UPLOAD
    if limits.strangers == "keep" and not is_given_name(address, flat=limits.flat):
        return STRANGER
    return INHERITED if limits.inherited == "keep" and earliest < limits.created else CANDIDATE
