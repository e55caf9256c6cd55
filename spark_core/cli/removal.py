"""`lakegc retention remove` and `restore`: entries that rules remove by a commit.

`restore` also makes deleted branches again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spark_core.cli.act_document import Confirmed, RuleDone, RulesDone
from spark_core.cli.acting import acting, tell
from spark_core.cli.branches import make_branches_again
from spark_core.cli.common import RepositoryType, RunKeyType, take_over_option
from spark_core.cli.holds import open_now
from spark_core.errors import FAILED, SettingsError
from spark_core.who_acts import who

if TYPE_CHECKING:
    from spark_core.branches.removal import Named, Removal, Reverted
    from spark_core.model import RunKey
    from spark_core.references.policies.versions import Version
    from spark_core.run import Run

_repository = click.argument("repository", type=RepositoryType())

# Why entries of a prefix stay, in words.
_KEPT = {
    "young": "too young",
    "introduced": "old, but a young commit touched the path",
    "held": "kept by a hold",
    "restaged": "written again and not committed",
    "unnamed": "old, with a path that is no UTF-8",
    "missing": "staged, without an object in the store",
}


@click.command("remove")
@_repository
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@acting
def retention_remove(config: Path | None, repository: str, *, dry_run: bool) -> int:
    """Remove what the rules with `effect: remove` name, by a commit on each rule's branch.

    Deletes no object: `lakegc retention restore` reverts the commits as long as the objects are
    there, and until when rules and policy let them be is shown. Staged entries cannot come back, so
    they are reset only if that was confirmed separately. A branch that cannot be written to is
    named, stays as it was, and is tried again by the next removal.

    \b
    Examples:
      lakegc retention remove my-repo --dry-run
      lakegc retention remove my-repo
    """  # noqa: D301 - the backslash is click's mark for "leave these lines as they are"
    with ExitStack() as stack:
        from spark_core.branches import removal

        run = open_now(config, stack, repository)
        done = removal.remove(run, who=who(), dry_run=dry_run)
        _show_removal(repository, str(run.key), done, dry_run=dry_run)
        rules = [_removed(each) for each in done.named]
        command = f"lakegc retention restore {repository} {run.key}"
        has_commit = not dry_run and any(rule.commit for rule in rules)
        tell(RulesDone(str(run.key), dry_run, rules), command if has_commit else "")
        return 0 if done.is_as_wanted else FAILED


@click.command("restore")
@_repository
@click.argument("key", metavar="KEY", type=RunKeyType())
@click.option(
    "--branch",
    "only",
    multiple=True,
    metavar="NAME",
    help="This deleted branch alone; may be given several times.",
)
@click.option(
    "--what-is-there",
    is_flag=True,
    help="Bring back the entries whose objects are in the store, although others are gone or these "
    "might have gone by now; no sweep runs beside it.",
)
@take_over_option
@acting
def retention_restore(
    config: Path | None,
    repository: str,
    key: RunKey,
    only: tuple[str, ...],
    take_over: RunKey | None,
    *,
    what_is_there: bool,
) -> int:
    """Bring back the entries of a removal, or the deleted branches of a mark.

    KEY is what `lakegc retention remove`, or `branches mark`, showed. Branches are made again at
    the same commits. Of a removal the commits are reverted, if the objects of what they removed are
    still there. The store is asked for each object first. If some are gone, nothing is reverted:
    how many and which is said, all of them are listed in a file, and --what-is-there brings back
    the others. Staged entries that were reset stay lost. The command may be given again: what is
    back stays.

    \b
    Examples:
      lakegc retention restore my-repo 2026-11-20T02-00-00Z
      lakegc retention restore my-repo 2026-11-20T02-00-00Z --what-is-there
      lakegc retention restore my-repo 2026-11-20T02-00-00Z --branch users-ann
    """  # noqa: D301 - as above
    if only and what_is_there:
        raise SettingsError(
            "--branch is of deleted branches, and --what-is-there of removed entries",
            "Give one of them.",
        )
    with ExitStack() as stack:
        from spark_core.branches.named_by_key import named_by_key
        from spark_core.lock import lease

        run = open_now(config, stack, repository)
        if only or (not what_is_there and named_by_key(run, key) == "branches"):
            return make_branches_again(run, key, only)
        if what_is_there:
            run = replace(run, take_over=None if take_over is None else str(take_over))
            stack.enter_context(lease.hold_lease(run, "undo"))
        return _revert(run, key, what_is_there=what_is_there)


def _revert(run: Run, key: RunKey, *, what_is_there: bool) -> int:
    from spark_core.branches import removal

    done = removal.undo(run, key, who=who(), what_is_there=what_is_there)
    _show_undone(run.repository.id, key, done)
    rules = [
        RuleDone(each.rule, each.state, each.branch, None, each.commit, each.found) for each in done
    ]
    tell(RulesDone(str(key), dry_run=False, rules=rules))
    return 0 if all(each.is_as_wanted for each in done) else FAILED


def confirm_removal(config: Path | None, repository: str, digest: str, *, resets: bool) -> int:
    """Confirm a policy that removes, by the beginning of its digest; `lakegc confirm` does it.

    Raises:
        SettingsError: If the digest is too short or another one, or objects expire by the policy.
    """
    with ExitStack() as stack:
        from spark_core.branches import removal
        from spark_core.references.policies import confirmed
        from spark_core.terminal import console

        run = open_now(config, stack, repository)
        version = removal.newest(run)
        _require_this_one(version, digest, resets=resets)
        made = (confirmed.confirm_resets if resets else confirmed.confirm)(run, version, who())
        what = "may reset staged entries" if resets else "may be carried out"
        found = f"version {version.number}, digest {version.policy_digest}"
        tell(Confirmed("resets" if resets else "policy", None, made.who, found))
        console.console().print(
            f"confirmed by {made.who}: version {version.number} of the retention policy of "
            f"{repository} {what} (digest {version.policy_digest})",
            markup=False,
            soft_wrap=True,
        )
    return 0


def _removed(named: Named) -> RuleDone:
    each = named.outcome
    return RuleDone(each.rule, each.state, each.branch, each.entries, each.commit, each.found)


def _require_this_one(version: Version, digest: str, *, resets: bool) -> None:
    """Refuse to confirm another document than the one that counts.

    Raises:
        SettingsError: If the digest is too short or another one, or objects expire by the policy.
    """
    if len(digest) < 12 or not version.policy_digest.startswith(digest):
        raise SettingsError(
            f"the digest of version {version.number} of the policy is {version.policy_digest}, and "
            f"not {digest!r}",
            "Look at what it names, and give at least 12 characters of that digest.",
        )
    policy = version.policy
    if not resets and policy is not None and not all(rule.removes for rule in policy.rules):
        raise SettingsError(
            f"objects expire by version {version.number} of the policy, which cannot be undone, "
            "and a mark shows which",
            "Mark, look at the report, and confirm the policy with `lakegc confirm REPOSITORY "
            "policy_is_confirmed --run KEY`.",
        )


def show_removed(named: Sequence[Named], title: str) -> None:
    """Show what removal rules name, apart from what expires, with their largest and newest."""
    from spark_core.plain_text import bytes_text, visible
    from spark_core.terminal import console

    shown = console.console()
    shown.print(console.table(title, _COLUMNS, [_row(each) for each in named]))
    for words in ("largest", "newest"):
        for each in named:
            rows = [
                (visible(path), f"{date:%Y-%m-%d %H:%M}", bytes_text(size))
                for path, date, size in _examples(each, words)
            ]
            if rows:
                columns = ("path", "written (UTC)", "bytes")
                heading = f"Rule {each.outcome.rule}, the {words} entries"
                shown.print(console.table(heading, columns, rows))
    _show_words(named)


_COLUMNS = ("rule", "what became of it", "entries", "bytes", "staged", "commit", "undo until (UTC)")


def _examples(named: Named, words: str) -> list[tuple[str, datetime, int]]:
    if words == "largest":
        return [(path, date, size) for size, path, date in named.found.largest]
    return [(path, date, size) for date, path, size in named.found.newest]


def _row(named: Named) -> tuple[str, ...]:
    from spark_core.plain_text import bytes_text

    outcome = named.outcome
    return (
        f"{outcome.rule}: {outcome.prefix}",
        outcome.state.replace("_", " "),
        f"{outcome.entries:,}",
        bytes_text(outcome.size_bytes),
        f"{outcome.reset_entries:,}",
        (outcome.commit or "-")[:12],
        "-" if outcome.commit is None else _until(outcome.undo_until),
    )


def _until(until: datetime | None) -> str:
    """Say until when what a merge removed can come back."""
    return "as long as there are no rules" if until is None else f"{until:%Y-%m-%d %H:%M}"


def _show_words(named: Sequence[Named]) -> None:
    """Say why entries stay, and what is wrong with a rule."""
    from spark_core.plain_text import visible
    from spark_core.terminal import console

    shown = console.console()
    for each in named:
        kept = each.found.kept + each.staged.kept
        words = ", ".join(f"{kept[why]:,} {_KEPT[why]}" for why in _KEPT if kept[why])
        if words:
            shown.print(f"rule {each.outcome.rule} keeps {words}", markup=False, soft_wrap=True)
        if each.outcome.found:
            text = f"rule {each.outcome.rule}: {visible(each.outcome.found)}"
            shown.print(text, style="yellow", markup=False, soft_wrap=True)


def _show_removal(repository: str, key: str, done: Removal, *, dry_run: bool) -> None:
    from spark_core.terminal import console

    shown = console.console()
    what = "Would be removed from" if dry_run else "Removal from"
    show_removed(done.named, f"{what} {repository}, run {key}")
    for why in done.left.values():
        shown.print(why, style="yellow", markup=False, soft_wrap=True)
    digest = done.version.policy_digest
    if dry_run:
        text = f"Nothing was changed. The policy is version {done.version.number}, digest {digest}."
    elif any(each.outcome.commit for each in done.named):
        text = f"No object was deleted. undo     lakegc retention restore {repository} {key}"
    else:
        text = "No commit was made."
    shown.print(text, markup=False, soft_wrap=True)


def _show_undone(repository: str, key: RunKey, done: Sequence[Reverted]) -> None:
    from spark_core.plain_text import visible
    from spark_core.terminal import console

    shown = console.console()
    words = {"before": "reverted before", "in_part": "in part", "too_late": "too late"}
    rows = [
        (
            str(each.rule),
            each.branch,
            words.get(each.state, each.state),
            (each.commit or "-")[:12],
            _until(each.until) if each.until or each.state == "reverted" else "-",
        )
        for each in done
    ]
    columns = ("rule", "branch", "what became of it", "commit", "possible until (UTC)")
    shown.print(console.table(f"Undo of removal {key} of {repository}", columns, rows))
    for each in done:
        if each.found:
            text = f"rule {each.rule}: {visible(each.found)}"
            shown.print(text, style="yellow", markup=False, soft_wrap=True)
        if each.reset_entries:
            shown.print(
                f"rule {each.rule}: {each.reset_entries:,} staged entries were reset, and cannot "
                "come back",
                markup=False,
                soft_wrap=True,
            )
