"""Tell everybody in [notify] how runs ended, from the process that made them.

The process shows all of it, too, so a message that cannot be sent is only a line of standard error.
What sends is imported where somebody is to be told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from spark_core.errors import LakegcError
from spark_core.plain_text import visible

if TYPE_CHECKING:
    from spark_core.model import RunKey
    from spark_core.settings import Settings


def tell_of_night(
    settings: Settings,
    repositories: Sequence[str],
    began: datetime,
    failed: Mapping[str, LakegcError],
) -> None:
    """Send the digest of a command over several repositories, if the settings want one.

    Args:
        settings: The settings.
        repositories: Their names.
        began: When the command began.
        failed: What ended the runs that did not end well, by repository.
    """
    if not (settings.notify.is_on and settings.notify.digest):
        return
    from spark_core.notices.digest import digest_of
    from spark_core.notices.sending import tell
    from spark_core.stored_runs.overview import overview

    def send() -> None:
        rows = [past.row for past in overview(settings, repositories)]
        why = {name: str(error) for name, error in failed.items()}
        tell(settings, digest_of(rows, began, failed=why))

    _trying(send)


def tell_of_failure(
    settings: Settings, repository_id: str, key: RunKey, error: LakegcError
) -> None:
    """Tell of a run that did not end well.

    Args:
        settings: The settings.
        repository_id: Its repository.
        key: Its run key.
        error: What ended it.
    """
    if not settings.notify.is_on:
        return
    from spark_core.notices.messages import of_error
    from spark_core.notices.sending import tell

    _trying(lambda: tell(settings, of_error(repository_id, str(key), error)))


def _trying(send: Callable[[], object]) -> None:
    try:
        send()
    except LakegcError as problem:
        sys.stderr.write(f"lakegc: {visible(problem.message)}\n")
