"""The cutoff of a run: the instant before which an object must have been written to be considered.

It follows only from the run key and the options, so it is fixed before anything is read.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from spark_core.clocks import MAX_CLOCK_SKEW
from spark_core.model import RunKey
from spark_core.run.options_and_defaults import RunOptions

# A minimum age is unsafe below the time that a server usually lets an upload wait for its
# reference.
_USUAL_GRACE = timedelta(hours=24)


def cutoff_of(options: RunOptions, key: RunKey) -> datetime:
    """Return the cutoff of a run.

    This machine's clock counts the minimum age, and the server's clock the validity of a link. An
    upload that is a moment older than 24 hours here may be minutes younger there, and its link may
    still be valid. So the difference that the clocks may have is added. An unsafe minimum age, of a
    throw-away repository, is taken as it is.
    """
    return before(key, options.min_age + _clock_allowance(options))


def uploads_cutoff_of(options: RunOptions, key: RunKey) -> datetime:
    """Return the cutoff for what a long upload in parts keeps beside its address."""
    age = max(options.min_age, options.longest_upload)
    return before(key, age + _clock_allowance(options))


def before(key: RunKey, age: timedelta) -> datetime:
    """Return the instant that lies so long before a run key, in whole seconds.

    The times of object stores and addresses are also cut to whole seconds. An object written at
    12:00:00.9 shows 12:00:00, and must not count as older than a cutoff at 12:00:00.5, which a
    minimum age with fractions would give.
    """
    return (key.instant - age).replace(microsecond=0)


def _clock_allowance(options: RunOptions) -> timedelta:
    is_unsafe = options.allow_unsafe_min_age and options.min_age < _USUAL_GRACE
    return timedelta(0) if is_unsafe else MAX_CLOCK_SKEW
