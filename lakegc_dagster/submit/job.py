"""The command line of lakeFS's own collection job, done by lakegc's engine in this process.

Exit codes are that job's: 0 done, 1 refused, wrong or failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from lakegc_dagster.submit.keys import OWN, Job, read_job
from spark_core import lakegc_keys, mark_and_sweep
from spark_core.clocks import SystemClock
from spark_core.errors import LakegcError, RepositoryStateError, SettingsError
from spark_core.handover.reference_mark import mark_id
from spark_core.lakefs import LakeFSServer
from spark_core.model import RunKey
from spark_core.notices.after_runs import tell_of_failure
from spark_core.output import lost
from spark_core.phases import (
    NOTHING_BY_THIS_SWEEP,
    NOTHING_DELETED,
    NOTHING_STARTED,
    phase,
)
from spark_core.run import Environment, Run, open_run
from spark_core.settings.environment import environment_of, session_of
from spark_core.spark.java import submitted_properties
from spark_core.sweep import first_sweep
from spark_core.terminal import console

if TYPE_CHECKING:
    from spark_core.report import Report
    from spark_core.spark.session import Session

FAILED = 1

# The keys that somebody may have set for the job or a store; Hadoop's own defaults are nobody's
# wish.
_MEANT = r"^(lakefs|fs\.s3a|fs\.azure|fs\.gs|google\.cloud)\..*"
_DEFAULTS = ("-default.xml", "default values")
# Spark copies these keys from the environment. The AWS chain finds them itself, with what belongs
# to them.
_COPIED = "from AWS_"


def run(arguments: Sequence[str], pairs: Mapping[str, str] | None = None) -> int:
    """Do what a command line of the reference job asks for.

    Args:
        arguments: `REPOSITORY [REGION]`.
        pairs: Properties of Spark over those that `spark-submit` or Spark's own files set.

    Returns:
        0 when it was done, 1 when it was refused or failed.
    """
    shown, errors = console.console(), console.console(sys.stderr)
    try:
        with phase(NOTHING_STARTED):
            properties, hadoop = submitted_properties(pairs or {})
            job = read_job(arguments, read_keys(properties, hadoop))
    except LakegcError as error:
        console.show_error(errors, error)
        return FAILED
    _say(shown, job)
    key = _run_key(job.mark_id) or RunKey.at(SystemClock().now())
    try:
        # A mark that exists may have been swept in part.
        with phase(NOTHING_DELETED if job.mark else NOTHING_BY_THIS_SWEEP):
            _collect(shown, job, key, lambda: _session(job, properties))
    except LakegcError as error:
        console.show_error(errors, error)
        tell_of_failure(job.settings, job.repository_id, key, error)
        return FAILED
    return 0


def read_keys(properties: Mapping[str, str], hadoop: Any) -> dict[str, str]:
    """Return the keys for the job: Hadoop's keys as the job would see them, and ours among Spark's.

    Hadoop's configuration files count as much as `spark.hadoop.` properties, as they do for the
    reference job; its built-in defaults do not.

    Args:
        properties: Spark's.
        hadoop: Hadoop's configuration, a Java object.
    """
    keys = {}
    for key, value in dict(hadoop.getValByRegex(_MEANT)).items():
        sources = [str(source) for source in hadoop.getPropertySources(key) or ()]
        if not any(mark in source for source in sources[-1:] for mark in (*_DEFAULTS, _COPIED)):
            keys[str(key)] = str(value)
    own = {
        name: value
        for name, value in properties.items()
        if name.startswith(OWN) or name == "spark.master"
    }
    return keys | own


def _say(shown: Console, job: Job) -> None:
    """Print what the keys became, before anything is asked."""
    doing = " and ".join(word for word, on in (("mark", job.mark), ("sweep", job.sweep)) if on)
    of = f" mark {job.mark_id}" if job.mark_id else ""
    shown.print(
        f"{doing}{of} of {job.repository_id}, as the reference job's keys say", markup=False
    )
    for note in job.notes:
        shown.print(f"  note     {note}", markup=False, soft_wrap=True)
    because: dict[str, list[str]] = {}
    for key, reason in job.ignored.items():
        because.setdefault(reason, []).append(key)
    for reason, keys in because.items():
        shown.print(f"  ignored  {', '.join(keys)}: {reason}", markup=False, soft_wrap=True)


def _session(job: Job, properties: Mapping[str, str]) -> Session:
    """Return the session that `spark-submit` configured, with what lakegc needs where unset."""
    # Instants are compared in UTC, whatever the cluster's time zone.
    return session_of(job.settings, {**properties, "spark.sql.session.timeZone": "UTC"})


def _collect(shown: Console, job: Job, key: RunKey, spark: Callable[[], Session]) -> None:
    environment = _environment(job, spark)
    options = job.settings.run_options(job.repository_id)
    own_key = _run_key(job.mark_id)
    if job.mark:
        _require_rules(environment, job.repository_id)
    opened = open_run(
        environment,
        job.repository_id,
        key,
        options,
        reference_mark=job.mark_id if job.mark_id and own_key is None else None,
        take_over=job.take_over,
    )
    shown.print(f"run {key}", markup=False)
    if job.sweep:
        opened = _allowed(shown, opened)
    with console.Steps(shown) as steps:
        done = mark_and_sweep.collect(
            opened, "sweep" if own_key else "mark_and_sweep" if job.sweep else "mark", steps
        )
    if done.report is not None:
        _report(shown, opened, done.report)
    if done.error is not None:
        raise done.error
    shown.print(f"worked   {done.work}", markup=False)
    shown.print(f"house    {done.house}", markup=False, soft_wrap=True)
    if lost() is not None and done.report is not None:
        outcomes = done.report.outcomes or [done.report.expired]
        words = "; ".join(f"{one.name}: {one}" for one in outcomes)
        sys.stderr.write(f"job {opened.repository.id}, run {key}, ended: {words}\n")


def _allowed(shown: Console, opened: Run) -> Run:
    """Let a first sweep delete for good, as whoever starts this job with sweeping on has said.

    What cannot come back is told once, before anything is deleted.
    """
    words = first_sweep.unanswered(opened)
    if words is None:
        return opened
    shown.print(
        f"Caution: this is the first sweep of {opened.repository.id}, and what it deletes could "
        f"not come back: {words}. spark.lakegc.defaults.quarantine=true moves objects aside for "
        f"{opened.options.quarantine_days:g} days, =false says that they are to be deleted at "
        "once, as now.",
        markup=False,
        soft_wrap=True,
    )
    return replace(opened, options=replace(opened.options, quarantine=False))


def _environment(job: Job, spark: Callable[[], Session]) -> Environment:
    settings = job.settings
    server = LakeFSServer(settings.server_options())
    # The credentials depend on where the repository lies, and only the server knows that.
    namespace = server.repository(job.repository_id).storage_namespace
    store_options = job.stores.over(settings.store_options(), namespace)
    return environment_of(
        settings, server, store_options, spark, SystemClock(), origin="spark-submit"
    )


def _require_rules(environment: Environment, repository_id: str) -> None:
    """Refuse to mark a repository without rules, as the reference job does on today's servers.

    Raises:
        RepositoryStateError: If it has none.
    """
    if environment.server.retention_rules(repository_id) is None:
        raise RepositoryStateError(
            f"repository {repository_id} has no garbage-collection rules, which the reference job "
            "needs",
            "Set them (`lakegc rules set`), or use `lakegc run`: there, a repository without "
            "rules keeps every commit.",
        )


def _run_key(mark_id: str) -> RunKey | None:
    """Return the run key that a mark id is; None for an id in the reference job's form.

    A new mark verifies a mark with such an id.
    """
    try:
        return RunKey.parse(mark_id)
    except SettingsError:
        return None


def _report(shown: Console, opened: Run, found: Report) -> None:
    console.show_report(shown, found)
    page = lakegc_keys.report_keys(opened.key, swept=found.swept)["html"]
    shown.print(f"\nreport   {opened.store.root}{page}", markup=False, soft_wrap=True)
    if not found.swept and found.passed:
        shown.print(f"mark id  {opened.key}  (for lakefs.gc.mark_id)", markup=False, soft_wrap=True)
        if opened.options.write_reference_mark:
            shown.print(
                f"         {mark_id(opened)}  (the same mark, for the reference job)",
                markup=False,
                soft_wrap=True,
            )
