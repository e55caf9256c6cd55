"""`lakegc confirm`: confirm by name that an unusual finding of a mark is right."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakegc_dagster.cli.act_document import Confirmed
from lakegc_dagster.cli.acting import acting, tell
from lakegc_dagster.cli.common import RepositoryType, RunKeyType, read_settings
from lakegc_dagster.terminal.who_acts import who

if TYPE_CHECKING:
    from spark_core.model import RunKey


@click.command()
@click.argument("repository", type=RepositoryType())
@click.argument("check")
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    required=True,
    help="Run key of the mark whose finding is confirmed.",
)
@acting
def confirm(config: Path | None, repository: str, check: str, key: RunKey) -> int:
    """Confirm an unusual finding of a mark, so that this mark may be swept; deletes nothing.

    The checks `expired_share_is_plausible` (more than half of the objects would go) and
    `nothing_changed_suddenly` stop an unusual run. The first run over an old repository may be
    unusual and right. Read the report, then confirm. The confirmation is stored beside the verdict,
    with its author and time, and is valid only for this run. No other check can be confirmed.

    `policy_is_confirmed` confirms the retention policy that the mark looked at: later marks let go
    what it names, as long as its document says the same.

    \b
    Examples:
      lakegc confirm my-repo expired_share_is_plausible --run 2026-11-20T02-00-00Z
      lakegc confirm my-repo policy_is_confirmed --run 2026-11-20T02-00-00Z
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from lakegc_dagster.stored_runs import open_known
    from lakegc_dagster.terminal import console
    from spark_core.checks import confirming
    from spark_core.references.policies import confirmed as policies

    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        run = open_known(settings, repository, key)
        if check == policies.CHECK:
            policy = policies.confirm_marked(run, who=who())
            found = f"version {policy.number} of the retention policy, digest "
            found += policy.policy_digest
            confirmer, following = policy.who, f"lakegc mark {repository}"
        else:
            confirmed = confirming.confirm(run, check, who=who())
            confirmer, found = confirmed.who, confirmed.found
            following = f"lakegc sweep {repository} --run {key}"
        shown.print(f"confirmed by {confirmer}: {found}", markup=False, soft_wrap=True)
        named = "" if settings.file is None else f" --config {settings.file}"
        shown.print(f"next     {following}{named}", markup=False, soft_wrap=True)
        tell(Confirmed(check, str(key), confirmer, found), f"{following}{named}")
    return 0
