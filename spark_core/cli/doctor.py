"""`lakegc doctor`: check everything that a run needs before the run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.common import RepositoryType, command_body, read_settings
from spark_core.errors import FAILED, WRONG_SETTINGS

if TYPE_CHECKING:
    from rich.console import Console

    from spark_core.doctor import Finding
    from spark_core.settings import Settings

_SIGNS = {True: "✓", False: "✗", None: "–"}  # noqa: RUF001 - a dash, as in any table


@click.command()
@click.argument("repositories", metavar="[REPOSITORY]...", nargs=-1, type=RepositoryType())
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, for programs.")
@click.option(
    "--spark",
    is_flag=True,
    help="Also start Spark with the settings, and run lakegc on its executors.",
)
@click.option(
    "--namespace",
    metavar="URI",
    help="Look at this storage instead, such as that of a deleted repository.",
)
@command_body
def doctor(
    config: Path | None,
    repositories: Sequence[str],
    *,
    as_json: bool,
    spark: bool,
    namespace: str | None,
) -> int:
    """Check everything that a run needs, and say how to fix what is not in order.

    Without names: every repository of the settings. The command checks server, keys, permissions,
    the repository's state and rules, the store's credentials and permissions, the S3 Inventory if
    marks read one, clocks and Java. A failure does not stop the checks after it. The repository
    does not change: objects are written and deleted under _lakefs/retention/gc/probe/ only, and the
    permission to delete objects is tested with a name that no object has.

    With --namespace: which repositories of the server lie in that storage, whose it was by what
    lakegc wrote there, what lies there, and whether anything collects it. All of it is listed, and
    nothing is written.

    The exit code is 0 when nothing failed, 1 when something did, 2 when the
    settings are wrong.

    \b
    Examples:
      lakegc doctor
      lakegc doctor my-repo
      lakegc doctor my-repo --spark
      lakegc doctor my-repo --json
      lakegc doctor --namespace s3://bucket/my-old-repo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    from spark_core.settings.collected_repositories import chosen_repositories
    from spark_core.settings.examined import examined_namespace
    from spark_core.terminal import console

    if namespace is not None and (repositories or spark):
        raise click.UsageError("--namespace takes no repository and no --spark.")
    shown = console.console()
    with ExitStack() as stack:
        settings = read_settings(config, stack)
        examined = {}
        if namespace is not None:
            examined[namespace] = list(examined_namespace(settings, namespace))
            if not as_json:
                _show(shown, namespace, examined[namespace])
        chosen: tuple[str, ...] = ()
        if namespace is None:
            chosen = chosen_repositories(settings, repositories, are_known=False)
        for repository_id in chosen:
            examined[repository_id] = _examined(
                settings, repository_id, None if as_json else shown, spark=spark
            )
            if not as_json:
                _show(shown, repository_id, examined[repository_id])
    if as_json:
        document = {
            name: [asdict(finding) for finding in findings] for name, findings in examined.items()
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return max(_code(findings) for findings in examined.values())


def _examined(
    settings: Settings, repository_id: str, shown: Console | None, *, spark: bool
) -> list[Finding]:
    """Ask all questions, and show the progress on a terminal."""
    if shown is None or not shown.is_terminal:
        return list(_findings(settings, repository_id, spark=spark))
    found = []
    with shown.status(f"examining {repository_id}") as status:
        for finding in _findings(settings, repository_id, spark=spark):
            found.append(finding)
            status.update(f"examining {repository_id}: done with {finding.about}, {finding.name}")
    return found


def _findings(settings: Settings, repository_id: str, *, spark: bool) -> Iterator[Finding]:
    from spark_core.settings.environment import session_of
    from spark_core.settings.examined import examined

    yield from examined(settings, repository_id, partial(session_of, settings) if spark else None)


def _show(shown: Console, repository_id: str, findings: Sequence[Finding]) -> None:
    from spark_core.terminal import console

    failed, unknown = (
        sum(finding.passed is value for finding in findings) for value in (False, None)
    )
    rows = [
        (
            _SIGNS[finding.passed],
            f"{finding.about}: {finding.name}",
            finding.found,
            finding.next_step,
        )
        for finding in _collapsed(findings)
    ]
    shown.print(console.table(repository_id, ("", "checked", "found", "next step"), rows))
    words = (
        "none failed"
        if not failed
        else f"{failed} failed: fix the first one first; it may cause the others"
    )
    plural = "" if len(findings) == 1 else "s"
    unsure = f"; {unknown} could not be checked" if unknown else ""
    shown.print(
        f"\n{repository_id}: {len(findings)} check{plural}, {words}{unsure}\n",
        markup=False,
        soft_wrap=True,
    )


def _collapsed(findings: Sequence[Finding]) -> list[Finding]:
    """Join questions that could not be asked for the same reason into one row; `--json` has each.

    The reason is what was found. The first of them keeps its place.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    kept: list[Finding | tuple[str, str, str]] = []
    for finding in findings:
        if finding.passed is not None:
            kept.append(finding)
            continue
        reason = (finding.about, finding.found, finding.next_step)
        if reason not in found:
            kept.append(reason)
        found.setdefault(reason, []).append(finding.name)
    return [_one_row(each, found[each]) if isinstance(each, tuple) else each for each in kept]


def _one_row(reason: tuple[str, str, str], names: Sequence[str]) -> Finding:
    from spark_core.doctor import Finding

    about, found, next_step = reason
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return Finding(about, f"{names[0]}{more}", passed=None, found=found, next_step=next_step)


def _code(findings: Sequence[Finding]) -> int:
    from spark_core.settings.examined import SETTINGS

    if any(finding.about == SETTINGS and finding.passed is False for finding in findings):
        return WRONG_SETTINGS
    return FAILED if any(finding.passed is False for finding in findings) else 0
