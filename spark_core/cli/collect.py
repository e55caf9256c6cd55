"""The commands that collect: `mark`, `run` and `sweep`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.collecting import collect_each
from spark_core.cli.common import (
    RepositoryType,
    RunKeyType,
    command_body,
    take_over_option,
)
from spark_core.errors import SettingsError

if TYPE_CHECKING:
    from spark_core.model import Job, RunKey
    from spark_core.settings import Settings

_repositories = click.argument(
    "repositories", metavar="[REPOSITORY]...", nargs=-1, type=RepositoryType()
)
_repository = click.argument("repository", type=RepositoryType())
_key = click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Instant that names the run, like 2026-11-20T02-00-00Z; default: now.",
)


_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object; the rest goes to standard error.",
)

_yes = click.option(
    "--yes",
    is_flag=True,
    help="Let a first sweep delete at once what could not come back, if the settings do not say "
    "`quarantine`.",
)

_collecting = partial(
    command_body,
    verbose="Show every step of several repositories, one after the other, and Spark's own lines.",
)

_full = click.option(
    "--full", is_flag=True, help="Read everything, although the settings allow an optimized run."
)

_reference_mark = click.option(
    "--reference-mark",
    metavar="MARK_ID",
    help="Verify this mark of lakeFS's own job: mark again; only what both name may go.",
)

_policies = click.option(
    "--policies",
    type=click.Choice(["only"]),
    help="Let go only what a retention policy names, where the settings say `sweep` of it; what "
    "nothing reaches stays for another run.",
)


@click.command()
@_repositories
@_key
@_full
@_policies
@take_over_option
@_yes
@_json
@_collecting
def run(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    policies: str | None,
    take_over: RunKey | None,
    *,
    full: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Mark repositories, and sweep those whose mode is `sweep`.

    Without names: every repository of the settings, all under one run key, as the nightly schedule
    does. Several are worked on side by side, and each is one line. The command goes on after a
    repository that is refused or fails: the exit code is 3 if any was refused, else 1 if any
    failed.

    \b
    Examples:
      lakegc run
      lakegc run my-repo other-repo
      lakegc run my-repo --run 2026-11-20T02-00-00Z
      lakegc run my-repo --full
      lakegc run my-repo --policies only
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"

    def job(settings: Settings, repository_id: str) -> Job:
        _require_policies(settings, repository_id, policies)
        return "mark_and_sweep" if settings.repository(repository_id).mode == "sweep" else "mark"

    return collect_each(
        config,
        repositories,
        key,
        job,
        changed=_changed(policies),
        take_over=take_over,
        full=full,
        as_json=as_json,
        yes=yes,
    )


@click.command()
@_repositories
@_key
@_full
@_policies
@_reference_mark
@_json
@_collecting
def mark(
    config: Path | None,
    repositories: Sequence[str],
    key: RunKey | None,
    policies: str | None,
    reference_mark: str | None,
    *,
    full: bool,
    as_json: bool,
) -> int:
    """Find the objects that may go and say why; deletes nothing, whatever the mode.

    Without names: every repository of the settings. The tables and the report
    are stored under _lakefs/retention/gc/ of each repository.

    A mark takes what never changes from the index that the last one saved (setting `optimized`).
    The first mark, each `full_every`-th and any that is in doubt read everything, and say why.

    \b
    Examples:
      lakegc mark my-repo
      lakegc mark --config /etc/lakegc.toml
      lakegc mark my-repo --full
      lakegc mark my-repo --policies only
      lakegc mark my-repo --reference-mark ft6s0e1ksdufuaulm34g
    """  # noqa: D301 - as above
    if reference_mark is not None and len(repositories) != 1:
        raise SettingsError("--reference-mark is the mark of one repository", "Name that one.")
    if reference_mark is not None and policies is not None:
        raise SettingsError(
            "a run within a mark of lakeFS's own job takes nothing by a retention policy",
            "Give --reference-mark or --policies, not both.",
        )

    def job(settings: Settings, repository_id: str) -> Job:
        _require_policies(settings, repository_id, policies)
        return "mark"

    return collect_each(
        config,
        repositories,
        key,
        job,
        changed=_changed(policies),
        reference_mark=reference_mark,
        full=full,
        as_json=as_json,
    )


@click.command()
@_repository
@click.option(
    "--run",
    "key",
    type=RunKeyType(),
    metavar="KEY",
    help="Run key of the mark; with --reference-mark, the run key of the new mark (default: now).",
)
@_reference_mark
@take_over_option
@_yes
@_json
@command_body
def sweep(
    config: Path | None,
    repository: str,
    key: RunKey | None,
    reference_mark: str | None,
    take_over: RunKey | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete the objects of an earlier mark, if its verdict allows it and the mode is `sweep`.

    `lakegc runs` shows the run keys of a repository's marks. A run that was swept to its end says
    so, and nothing more is done.

    A mark of lakeFS's own job is verified first: the repository is marked again, and only objects
    that both marks name are deleted. The rest of the job's mark is kept, and reported with its
    reason.

    \b
    Examples:
      lakegc sweep my-repo --run 2026-11-20T02-00-00Z
      lakegc sweep my-repo --reference-mark ft6s0e1ksdufuaulm34g
      lakegc sweep my-repo --run 2026-11-20T02-00-00Z --take-over 2026-11-19T02-00-00Z
    """  # noqa: D301 - as above
    if reference_mark is not None:
        return collect_each(
            config,
            [repository],
            key,
            lambda _settings, _repository_id: "mark_and_sweep",
            reference_mark=reference_mark,
            take_over=take_over,
            as_json=as_json,
            yes=yes,
        )
    if key is None:
        raise SettingsError(
            "no mark to sweep was named",
            "Name its run key with --run (`lakegc runs` shows "
            "them), or a mark of lakeFS's own job with --reference-mark.",
        )
    return collect_each(
        config,
        [repository],
        key,
        lambda _settings, _repository_id: "sweep",
        take_over=take_over,
        as_json=as_json,
        yes=yes,
    )


def _require_policies(settings: Settings, repository_id: str, policies: str | None) -> None:
    """Refuse `--policies` where the settings let a retention policy take nothing.

    A command line is typed by one person once; whether a policy may take anything is settled for
    a repository.
    """
    said = settings.repository(repository_id).policies
    if policies is None or said in ("sweep", "only"):
        return
    step = (
        'Set `policies = "mark"` to see what its retention policy names.'
        if said == "off"
        else f"`lakegc mark {repository_id}` shows what its retention policy names; set `policies "
        '= "sweep"` to let that go.'
    )
    raise SettingsError(f'the settings of {repository_id} say `policies = "{said}"`', step)


def _changed(policies: str | None) -> dict[str, object]:
    return {} if policies is None else {"policies": policies}
