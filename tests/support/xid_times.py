"""When the server allocated an address, by its name: one at a time, as an oracle of the columns."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_core.addresses.xids import xid_seconds


def xid_time(name: str) -> datetime | None:
    """Return when the address of an object was allocated, before its upload began.

    Args:
        name: Object name or whole address; only the last segment counts, up to the comma that
            separates a signature.
    """
    seconds = xid_seconds(name.rpartition("/")[2])
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
