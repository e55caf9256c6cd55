"""`lakegc confirm`: a person says by name that a finding is right, or that something may go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spark_core.cli.act_document import Confirmed
from spark_core.cli.acting import acting, tell
from spark_core.cli.branches import confirm_branches
from spark_core.cli.common import RepositoryType, RunKeyType, read_settings
from spark_core.cli.removal import confirm_removal
from spark_core.cli.shown_report import past_checks
from spark_core.who_acts import who

if TYPE_CHECKING:
    from spark_core.model import RunKey

# What is confirmed beside checks.
_REMOVAL, _BRANCHES = "removal", "branches"


@click.command()
@click.argument("repository", type=RepositoryType())
@click.argument("check")
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key of the mark whose finding is confirmed; needed but for `removal`.",
)
@click.option(
    "--branch",
    "only",
    multiple=True,
    metavar="NAME",
    help="Of `branches` this one alone; may be given several times.",
)
@click.option(
    "--digest",
    metavar="DIGEST",
    help="For `removal`: the beginning of the policy's digest, at least 12 characters.",
)
@click.option(
    "--resets",
    is_flag=True,
    help="For `removal`: that staged entries may be reset, which cannot be undone.",
)
@acting
def confirm(
    config: Path | None,
    repository: str,
    check: str,
    key: RunKey | None,
    *,
    only: tuple[str, ...],
    digest: str | None,
    resets: bool,
) -> int:
    """Confirm an unusual finding of a mark, so that this mark may be swept; deletes nothing.

    The checks `expired_share_is_plausible` (more than half of the objects would go) and
    `nothing_changed_suddenly` stop an unusual run. The first run over an old repository may be
    unusual and right. Read the report, then confirm. The confirmation is stored beside the verdict,
    with its author and time, and is valid only for this run. No other check can be confirmed.

    `policy_is_confirmed` confirms the retention policy that the mark looked at: later marks let go
    what it names, as long as its document says the same. `removal` confirms a policy by its digest
    for `lakegc retention remove`: look first at what it names (`--dry-run`). `branches` confirms
    what a mark of stale branches lets go, for `lakegc retention branches delete`.

    \b
    Examples:
      lakegc confirm my-repo expired_share_is_plausible --run 2026-11-20T02-00-00Z
      lakegc confirm my-repo policy_is_confirmed --run 2026-11-20T02-00-00Z
      lakegc confirm my-repo removal --digest 1f0c2a9b77d1
      lakegc confirm my-repo branches --run 2026-11-20T02-00-00Z --branch users-ann
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    if (digest is not None or resets) and check != _REMOVAL:
        raise click.UsageError(f"--digest and --resets belong to `{_REMOVAL}`. Nothing was done.")
    if only and check != _BRANCHES:
        raise click.UsageError(f"--branch belongs to `{_BRANCHES}`. Nothing was done.")
    if check == _REMOVAL:
        if digest is None or key is not None:
            raise click.UsageError(f"`{_REMOVAL}` needs --digest, and no --run. Nothing was done.")
        return confirm_removal(config, repository, digest, resets=resets)
    if key is None:
        raise click.UsageError("--run says which mark is meant. Nothing was done.")
    if check == _BRANCHES:
        return confirm_branches(config, repository, key, only)
    return _confirm_finding(config, repository, check, key)


def _confirm_finding(config: Path | None, repository: str, check: str, key: RunKey) -> int:
    from spark_core.checks import confirming, verdict
    from spark_core.references.policies import confirmed as policies
    from spark_core.stored_runs import open_known
    from spark_core.terminal import console

    shown, left = console.console(), list[Mapping[str, Any]]()
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
            left = confirming.refusing(run.store, key, verdict.load(run))
            following = past_checks(repository, key, [str(each["name"]) for each in left])
        shown.print(f"confirmed by {confirmer}: {found}", markup=False, soft_wrap=True)
        for each in left:
            shown.print(
                f"still refused by {each['name']}: {each['summary']}", markup=False, soft_wrap=True
            )
        named = "" if settings.file is None else f" --config {settings.file}"
        shown.print(f"next     {following}{named}", markup=False, soft_wrap=True)
        tell(Confirmed(check, str(key), confirmer, found), f"{following}{named}")
    return 0
