"""The run key of a run that nobody named: this instant, and no other run's."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spark_core.model import RunKey

_FOLDER = "run_keys"
# A claim is needed for its second only. The others are taken away a day later.
_KEPT = timedelta(days=1)


def _now() -> datetime:
    return datetime.now(UTC)


def new_run_key(
    home: Path,
    *,
    now: Callable[[], datetime] = _now,
    wait: Callable[[float], None] = time.sleep,
) -> RunKey:
    """Claim the key of this second; a second that another run has claimed is waited out.

    A key names a second, and a key in the future is refused, so the later of two runs waits. The
    claim is a file in Dagster's home, which all runs of a machine share.

    Args:
        home: Dagster's home; made when it is not there and can be made.
        now: Tells the time.
        wait: Sleeps for so many seconds.

    Returns:
        A key that no other call for this home has returned, if there can be a claim.
    """
    folder = home / _FOLDER
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    while True:
        instant = now()
        key = RunKey.at(instant)
        try:
            (folder / str(key)).touch(exist_ok=False)
            _forget(folder, RunKey.at(instant - _KEPT))
        except FileExistsError:
            wait(1.0 - instant.microsecond / 1e6)
            continue
        except OSError:
            # The driver of a cluster may write nowhere. There it is as between two machines.
            pass
        return key


def _forget(folder: Path, before: RunKey) -> None:
    for claim in folder.iterdir():
        if claim.name < str(before):
            claim.unlink(missing_ok=True)
