"""`lakegc notify`: tell people what is overdue or waits, and try whether they can be told."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import RepositoryType, command_body, read_settings
from spark_core.errors import SettingsError

if TYPE_CHECKING:
    from spark_core.notices.messages import Message
    from spark_core.stored_runs.overview import Past


@click.command()
@click.argument("repositories", metavar="[REPOSITORY]...", nargs=-1, type=RepositoryType())
@click.option("--test", is_flag=True, help="Only send a test message to everybody in [notify].")
@command_body
def notify(config: Path | None, repositories: Sequence[str], *, test: bool) -> int:
    """Tell everybody in [notify] of repositories that are overdue or wait for a confirmation.

    Without names: every repository of the settings. `lakegc run`, `mark` and `sweep`
    themselves tell of a run that failed or was refused, and Dagster's sensors tell of all four.
    This command is for a timer beside `lakegc run`, where no Dagster daemon runs. With `digest` as
    `events` it sends one message about all of them and the last 24 hours.

    \b
    Examples:
      lakegc notify --test
      lakegc notify
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.notices.messages import Message, of_status
    from spark_core.notices.sending import send, tell
    from spark_core.terminal import console

    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        if not settings.notify.is_on:
            raise SettingsError(
                f"{settings.file or 'the settings'}: [notify] names nobody to tell",
                "Set slack_webhook_env, webhook_env, sns_topic or mail_to.",
            )
        if test:
            words = "This is a test of [notify]. Nothing happened to any repository."
            went = send(settings, Message("test", "", "", words, subject="a test"))
            shown.print(f"told     {', '.join(went)}", markup=False, soft_wrap=True)
            return 0
        from spark_core.stored_runs.overview import overview

        found = list(overview(settings, repositories))
        messages = (
            [_digest(found)]
            if settings.notify.digest
            else [message for past in found for message in of_status(past.status)]
        )
        for message in messages:
            went = tell(settings, message)
            shown.print(
                f"{message.title}: told {', '.join(went) or 'nobody'}", markup=False, soft_wrap=True
            )
    if not messages:
        shown.print("nothing is overdue, and nothing waits for a confirmation")
    return 0


def _digest(found: Sequence[Past]) -> Message:
    from spark_core.clocks import SystemClock
    from spark_core.notices.digest import digest_of

    return digest_of([past.row for past in found], SystemClock().now() - timedelta(days=1))
