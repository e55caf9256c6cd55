"""The demo: make a repository with a past, mark and sweep it, prove it by the lakeFS API."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import dagster as dg
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lakegc_dagster.definitions import build_defs
from lakegc_dagster.demo import sandbox as demo_sandbox
from lakegc_dagster.demo.branches_and_entries import CLEAR, REMOVE, show_branches, show_removal
from lakegc_dagster.demo.proof import ApiReader, Proof, prove
from lakegc_dagster.demo.sandbox import REPOSITORY_ID
from lakegc_dagster.launch.home import open_instance
from lakegc_dagster.partitions import add_partition
from lakegc_dagster.sandbox import Sandbox
from lakegc_dagster.sandbox.history import documents_history
from lakegc_dagster.sandbox.policy_history import POLICY, policy_history
from lakegc_dagster.sandbox.story import Story
from spark_core import lakegc_keys, report
from spark_core.errors import LakegcError, UnsafePlanError
from spark_core.events import Event, OnEvent
from spark_core.explain import Explanation
from spark_core.foreign_errors import one_line
from spark_core.model import Job, RunKey
from spark_core.phases import SWEEP_STANDS, phase
from spark_core.plain_text import bytes_text
from spark_core.records import tables
from spark_core.records.figures import DeletionFigures
from spark_core.references.policies import parsing, versions
from spark_core.references.policies.confirmed import CHECK, confirm_marked
from spark_core.report import Report
from spark_core.run import Run
from spark_core.run.local_path import local_path
from spark_core.settings import Settings, load_settings
from spark_core.spark import placement
from spark_core.spark.java import check_java
from spark_core.spark.output import OUTPUT
from spark_core.stored_runs import explained, open_stored
from spark_core.terminal import console

# The first characters are enough to know the id of a commit or an object.
_ID_SHOWN = 10
# Where a line has room for an address as well.
_WIDE = 120
# The digits that differ between the members of a numbered series.
_NUMBER = re.compile(r"\d+$")

_PROOF = "Proof: every object is asked for through the lakeFS API, and looked for in the store"

StoryName = Literal["collection", "policies"]


def run_demo(
    directory: Path,
    *,
    every: bool = False,
    story: StoryName = "collection",
    shown: Console | None = None,
) -> int:
    """Run the whole demo.

    Args:
        directory: Where the sandbox keeps everything; an earlier demo's sandbox is deleted.
        every: Name every object instead of groups of them.
        story: What the repository went through: `collection` by rules of retention, or `policies`,
            whose objects go by branch and path.
        shown: Where to show it; standard output when None.

    Returns:
        0 if the proof holds, else 1.

    Raises:
        SettingsError: If there is no Java, or the directory is not lakegc's.
        LakegcError: If the mark or the sweep is refused or fails.
    """
    shown = shown or console.console()
    began = time.monotonic()
    check_java()
    by_policy = story == "policies"
    more = 'policies = "sweep"\nmax_policy_share = 0.5\n' if by_policy else ""
    with demo_sandbox.fresh(directory, more=more) as sandbox:
        key = RunKey.at(datetime.now(UTC))
        told = _tell_of_policy(shown, sandbox, key) if by_policy else _tell(shown, sandbox, key)
        settings = load_settings(demo_sandbox.settings_file(directory))
        OUTPUT.keep_in(settings.dagster_home)
        headings = iter("23456789")
        if by_policy:
            key = _confirmed(shown, settings, key, headings)

        _heading(shown, next(headings), "Mark: find what may go; nothing is deleted yet")
        run = open_stored(settings, REPOSITORY_ID, key)
        checks = _run(shown, settings, "mark", run)
        _show_plan(shown, told, report.load(run), explained(run), every=every)

        _heading(shown, next(headings), "Sweep: delete it")
        with phase(SWEEP_STANDS):
            _show_sweep(shown, run, [*checks, *_run(shown, settings, "sweep", run)])
            if by_policy:
                _heading(shown, next(headings), REMOVE)
                show_removal(shown, settings)
                _heading(shown, next(headings), CLEAR)
                show_branches(shown, settings)

            _heading(shown, next(headings), _PROOF)
            proof = prove(told, ApiReader(settings.server_options(), REPOSITORY_ID), run.store)
            _show_proof(shown, proof)
    _show_next(shown, directory, run, number=next(headings), story=story)
    _show_end(shown, told, proof, time.monotonic() - began)
    return 0 if proof.holds else 1


def make_history(directory: Path) -> None:
    """Make the demo's sandbox with its repository, uncollected, for the UI to begin with.

    Args:
        directory: Where the sandbox keeps everything.
    """
    with demo_sandbox.fresh(directory) as sandbox:
        documents_history(sandbox, REPOSITORY_ID, now=datetime.now(UTC))


def _tell(shown: Console, sandbox: Sandbox, key: RunKey) -> Story:
    story = documents_history(sandbox, REPOSITORY_ID, now=key.instant)
    shown.print(
        f"[bold]{len(story.deleted)} of {len(story.files)} objects go, {len(story.kept)} stay, and "
        "here is the proof[/bold]"
    )
    _heading(shown, "1", "A repository with a past, on a sandbox server")
    days = ", ".join(f"{branch} {kept}" for branch, kept in story.branch_retention_days.items())
    oldest = max(commit.age for commit in story.commits)
    shown.print(
        f"  {story.repository_id} at {sandbox.endpoint}: {len(story.commits)} commits in "
        f"{oldest.days} days, {len(story.files)} objects in the store",
        f"  days to keep: {days}, every other branch {story.default_retention_days} (the example "
        "of the lakeFS documents)",
        "  beside the commits: staged, overwritten, reset and linked objects, deleted branches, a "
        "tag, half-done and young uploads",
        sep="\n",
    )
    return story


def _tell_of_policy(shown: Console, sandbox: Sandbox, key: RunKey) -> Story:
    story = policy_history(sandbox, REPOSITORY_ID, now=key.instant)
    shown.print(
        f"[bold]{len(story.deleted)} of {len(story.files)} objects go, nearly all of them by a "
        "retention policy although branches show them, and here is the proof[/bold]"
    )
    _heading(shown, "1", "A repository with logs and scratch, on a sandbox server, and its policy")
    shown.print(
        f"  {story.repository_id} at {sandbox.endpoint}: {len(story.commits)} commits, "
        f"{len(story.files)} objects in the store\n"
    )
    shown.print(*POLICY.split("\n"), sep="\n", markup=False)
    return story


def _confirmed(shown: Console, settings: Settings, key: RunKey, headings: Iterator[str]) -> RunKey:
    """Set the policy, show what it names, and confirm it; return the key of the next run."""
    run = open_stored(settings, REPOSITORY_ID, key)
    policy = parsing.parse(POLICY.encode(), name="policy")
    versions.store_version(run, policy, who="the demo")
    title = "Mark: what the policy names; nothing goes before a person has confirmed it"
    _heading(shown, next(headings), title)
    _run(shown, settings, "mark", run)
    found = report.load(run)
    facts = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    rows = [
        (str(number), prefix or "(everywhere)", str(objects), bytes_text(size))
        for number, prefix, objects, size in facts["by_rule"]
        if not policy.rules[number - 1].removes
    ]
    shown.print()
    shown.print(console.table("What it names", ("rule", "prefix", "objects", "bytes"), rows))
    shown.print(
        f"\n  {found.expired.objects} of {found.listed.objects} objects may go without it; by the "
        f"policy nothing goes yet, because {facts['waits']}",
        markup=False,
    )
    _heading(shown, next(headings), f"Confirm: lakegc confirm {REPOSITORY_ID} {CHECK} --run {key}")
    digest = confirm_marked(run, who="the demo").policy_digest
    shown.print(f"  the document with the digest {digest[:12]} is confirmed, until it says more")
    return RunKey.at(max(datetime.now(UTC), key.instant + timedelta(seconds=1)))


def _run(
    shown: Console, settings: Settings, job: Job, run: Run
) -> Sequence[dg.AssetCheckEvaluation]:
    """Let Dagster run a job as the UI would; show its steps as they end, and who worked.

    Returns:
        What its checks said.

    Raises:
        LakegcError: If it was refused or failed.
        KeyboardInterrupt: If a person ended it; Dagster has it as a run that failed.
    """
    before = placement.work_so_far()
    with (
        open_instance(settings.dagster_home) as instance,
        console.Steps(shown) as steps,
        # Dagster keeps in files what its runs print, so what is shown does not go that way.
        redirect_stdout(io.StringIO()),
    ):
        try:
            result = (
                build_defs(settings)
                .resolve_job_def(job)
                .with_hooks({_each_table(run, job, steps)})
                .execute_in_process(
                    instance=instance,
                    partition_key=add_partition(instance, REPOSITORY_ID, run.key),
                    run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                )
            )
        except (dg.Failure, dg.DagsterError) as failed:
            if isinstance(failed.__cause__, LakegcError):
                raise failed.__cause__ from failed
            raise LakegcError(
                f"Dagster ended the {job}: {one_line(str(failed))}",
                "Its events are in the UI (`lakegc ui`).",
            ) from failed
        except dg.DagsterExecutionInterruptedError as ended:
            raise KeyboardInterrupt from ended
    shown.print(
        f"  {'worked':<22} {placement.work_so_far().since(before)}, as always = true in [spark] "
        "says",
        markup=False,
    )
    return result.get_asset_check_evaluations()


def _each_table(run: Run, job: Job, tell: OnEvent) -> dg.HookDefinition:
    """Make the hook that tells of each table that Dagster has stored, and of the next to come."""
    to_come = [*tables.MARK_TABLES] if job == "mark" else [tables.DELETION_REPORT]
    tell(Event("started", to_come[0].name))

    @dg.success_hook
    def show_table(context: dg.HookContext) -> None:
        if to_come and context.op.name == to_come[0].name:
            tell(Event.stored(run.load(to_come.pop(0)).manifest))
            for spec in to_come[:1]:
                tell(Event("started", spec.name))

    return show_table


def _show_plan(
    shown: Console,
    story: Story,
    found: Report,
    explained: Sequence[Explanation],
    *,
    every: bool,
) -> None:
    """Show what the mark names and what it keeps, as `lakegc explain` says it.

    The fate that the story wrote down before is only compared.

    Raises:
        UnsafePlanError: If the mark names an object that is to be kept.
    """
    going = [one for one in explained if one.state != "kept"]
    staying = [one for one in explained if one.state == "kept"]
    for title, some, groups in (
        ("To be deleted, and why", going, found.by_reason),
        ("Kept, and why", staying, found.kept),
    ):
        shown.print()
        shown.print(_explained_table(shown, title, some, every=every))
        shown.print()
        shown.print(console.groups_table("In short", groups))
    plan = {one.address for one in going}
    wrong = [file for file in story.kept if file.address in plan]
    missed = [file for file in story.deleted if file.address not in plan]
    shown.print(
        f"\n  {len(going)} objects ({bytes_text(_size(going))}) may go, {len(staying)} "
        f"stay; {len(story.files) - len(wrong) - len(missed)} of {len(story.files)} are as the "
        "history foretold"
    )
    for file in missed:
        shown.print(
            f"  [yellow]kept, although it ought to go:[/yellow] {escape(file.path)}, "
            f"{escape(file.reason)}"
        )
    if wrong:
        named = "; ".join(f"{file.path} ({file.reason})" for file in wrong[:5])
        raise UnsafePlanError(
            f"the mark names {len(wrong)} objects that are to be kept: {named}",
            "This is a fault of lakegc: please report it with the run's report.",
        )


def _explained_table(
    shown: Console, title: str, explained: Sequence[Explanation], *, every: bool
) -> Table:
    """Make the table of objects; without `every`, a numbered series with one fate shares a row."""
    series: dict[tuple[str, ...], list[Explanation]] = {}
    # What no commit had comes last.
    for one in sorted(explained, key=lambda one: (one.path is None, one.path or one.rule)):
        key = (
            (one.address,)
            if every
            else (_NUMBER.sub("#", one.path or ""), one.commit_id or "", one.rule)
        )
        series.setdefault(key, []).append(one)
    wide = shown.width >= _WIDE
    return console.table(
        title,
        ["path", "commit", *(["address"] if wide else []), "objects", "bytes", "why"],
        [
            [
                _paths(row),
                (row[0].commit_id or "-")[:_ID_SHOWN],
                *([_address(row)] if wide else []),
                str(len(row)),
                bytes_text(_size(row)),
                row[0].rule,
            ]
            for row in series.values()
        ],
    )


def _paths(some: Sequence[Explanation]) -> str:
    first, last = some[0].path, some[-1].path
    if first is None or last is None:
        return "(no commit has it)"
    return first if len(some) == 1 else f"{first} to {last.rpartition('/')[2]}"


def _address(some: Sequence[Explanation]) -> str:
    """Return what identifies the first object: its address's xid, without a link's signature."""
    more = "" if len(some) == 1 else ", ..."
    return f"{some[0].address.rpartition('/')[2].partition(',')[0]}{more}"


def _size(some: Iterable[Explanation]) -> int:
    return sum(one.size_bytes or 0 for one in some)


def _show_sweep(shown: Console, run: Run, checks: Sequence[dg.AssetCheckEvaluation]) -> None:
    stored = {spec.name: run.load(spec).manifest for spec in tables.ALL_TABLES}
    figures = DeletionFigures.of(stored[tables.DELETION_REPORT.name])
    shown.print(
        f"\n  {figures.deleted_objects or 0} of {figures.planned_objects} objects deleted, "
        f"{bytes_text(figures.deleted_bytes)} freed"
    )
    shown.print(f"  {sum(check.passed for check in checks)} of {len(checks)} checks passed\n")
    shown.print(console.steps_table(stored))


def _show_proof(shown: Console, proof: Proof) -> None:
    shown.print(
        f"  {proof.answered_gone:>4} deleted objects answer 410 Gone where a path still leads to "
        "them",
        f"  {proof.absent:>4} deleted objects that no path leads to are not in the store any more",
        f"  {proof.read:>4} kept objects were read through the API, each from its address, byte "
        "by byte as uploaded",
        f"  {proof.read_from_store:>4} kept objects that no path leads to yet are in the store as "
        "they were written",
        f"  {proof.listed:>4} objects are listed under data/, and no others",
        sep="\n",
    )
    for failure in proof.failures[:20]:
        shown.print(f"  [red]not so:[/red] {escape(failure)}", soft_wrap=True)


def _show_end(shown: Console, told: Story, proof: Proof, seconds: float) -> None:
    verdict = (
        "[green]The proof holds[/green]" if proof.holds else "[red]The proof does not hold[/red]"
    )
    shown.print(
        f"\n{verdict}: {len(told.deleted)} of {len(told.files)} objects were to go, "
        f"{len(told.kept)} to stay. {seconds:.0f} seconds in all."
    )


def _show_next(shown: Console, directory: Path, run: Run, *, number: str, story: StoryName) -> None:
    config = f"--config {demo_sandbox.settings_file(directory)}"
    command = _command()
    explain = f"{command} explain {REPOSITORY_ID} lakefs://{REPOSITORY_ID}"
    _heading(shown, number, "Where it lies, and what to try next")
    if story == "policies":
        steps = [
            f"  next     {command} retention get {REPOSITORY_ID} {config}",
            "             the policy, its version and its digest",
            f"           {explain}/main/logs/day-00 {config}",
            "             which rule took it, and which run",
        ]
    else:
        steps = [
            f"  next     {command} run {config}",
            "             a second run finds nothing more",
            f"           {command} rules set {REPOSITORY_ID} --default 1 --branch main=3 {config}",
            f"           {command} run {config}",
            "             shorter rules let more expire",
            f"           {explain}/dev/d_deleted {config}",
            "             what it was, which run deleted it, and whether it can come back",
        ]
    shown.print(
        f"  Parquet  {local_path(run, lakegc_keys.ROOT)}*/run_id={run.key}/",
        f"  report   {local_path(run, lakegc_keys.report_keys(run.key, swept=True)['html'])}",
        f"  UI       {command} ui --sandbox {config}  "
        "(its Runs and Catalog show the runs above; it serves the sandbox as long as it is open)",
        *steps,
        "           your own server: see the README",
        sep="\n",
        markup=False,
        soft_wrap=True,
    )


def _command() -> str:
    """Return how this person calls lakegc: by name, or from a clone's virtual environment."""
    if shutil.which("lakegc"):
        return "lakegc"
    return os.path.relpath(Path(sys.executable).with_name("lakegc"))


def _heading(shown: Console, number: str, text: str) -> None:
    shown.print()
    shown.print(f"[bold]{number} {escape(text)}[/bold]")
