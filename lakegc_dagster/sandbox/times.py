"""Conversions of instants: aware datetimes, Unix seconds and nanoseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_nanoseconds(instant: datetime) -> int:
    """Return nanoseconds since 1970, exactly."""
    return (instant - _EPOCH) // _MICROSECOND * 1000


def from_nanoseconds(nanoseconds: int) -> datetime:
    """Return the instant of nanoseconds since 1970, truncated to microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


def to_seconds(instant: datetime) -> int:
    """Return whole seconds since 1970, rounded down."""
    return (instant - _EPOCH) // timedelta(seconds=1)


def from_seconds(seconds: int) -> datetime:
    """Return the instant of seconds since 1970."""
    return _EPOCH + timedelta(seconds=seconds)


def rfc3339(instant: datetime) -> str:
    """Print an instant as the API's date-times."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
