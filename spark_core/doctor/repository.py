"""Ask about the repository: its state, its rules, and each permission that a mark needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spark_core.did_you_mean import no_branch_named
from spark_core.doctor.examination import Examination
from spark_core.doctor.questions import ProbeAnswer, Question, found_by
from spark_core.errors import RepositoryStateError, sentences
from spark_core.plain_text import span_text
from spark_core.run.preconditions import (
    ask_branches,
    ask_grace_period,
    ask_kind_of_store,
    ask_neighbours,
    ask_table_prefix,
    require_writable,
)


def _exists(examination: Examination) -> ProbeAnswer:
    server, _ = examination.server, examination.user
    examination.repository = repository = server.repository(examination.repository_id)
    storage = f", storage {repository.storage_id}" if repository.storage_id else ""
    return ProbeAnswer(
        f"created {repository.creation_date:%Y-%m-%d} in {repository.storage_namespace}{storage}",
        figures={
            "storage_namespace": repository.storage_namespace,
            "storage_id": repository.storage_id,
        },
    )


def _namespace(examination: Examination) -> ProbeAnswer:
    repository = examination.repository
    examination.namespace = namespace = examination.storage().namespace_of(repository)
    return ProbeAnswer(f"{namespace.root} can be read", figures={"root": namespace.root})


def _kind_of_store(examination: Examination) -> ProbeAnswer:
    repository, namespace = examination.repository, examination.namespace
    kind = ask_kind_of_store(examination.server, repository, namespace).blockstore_type
    return ProbeAnswer(f"{kind}, as the server says", figures={"blockstore_type": kind})


def _writable(examination: Examination) -> ProbeAnswer:
    require_writable(examination.repository)
    return ProbeAnswer("not read-only")


def _branches(examination: Examination) -> ProbeAnswer:
    branches = ask_branches(examination.server, examination.repository)
    examination.branches = branches
    return ProbeAnswer(f"{len(branches):,} (hidden ones too)", figures={"branches": len(branches)})


def _tags(examination: Examination) -> ProbeAnswer:
    tags = examination.server.tags(examination.repository.id)
    protects = (
        "each keeps its commit"
        if examination.options.tags_protect
        else "they protect nothing (tags_protect = false)"
    )
    return ProbeAnswer(f"{len(tags):,}; {protects}", figures={"tags": len(tags)})


def _own_namespace(examination: Examination) -> ProbeAnswer:
    repository, namespace = examination.repository, examination.namespace
    seen = ask_neighbours(examination.server, repository, namespace, examination.endpoint_of)
    return ProbeAnswer(
        f"shared or nested with none of the {seen:,} repositories that this user may see",
        figures={"repositories": seen},
    )


def _imports(examination: Examination) -> ProbeAnswer:
    return ProbeAnswer(
        "not examined: whether another repository imports objects of "
        f"{examination.repository.id} (it would have to be read whole)",
        None,
        "If one does, do not sweep this one: what is garbage here may be in use there.",
    )


def _rules(examination: Examination) -> ProbeAnswer:
    rules = examination.server.retention_rules(examination.repository.id)
    if rules is None:
        return ProbeAnswer(
            "none: every commit keeps its objects, and only uncommitted garbage goes",
            figures={"rules": None},
        )
    shown = (
        f"{rules.default_retention_days:,} days, and {len(rules.branches):,} branches with days of "
        "their own"
    )
    figures: dict[str, Any] = {
        "default_retention_days": rules.default_retention_days,
        "branch_rules": len(rules.branches),
    }
    there = {branch.id for branch in examination.branches}
    if absent := sorted(set(rules.branches) - there):
        figures["rules_without_branch"] = absent
    return ProbeAnswer(sentences(shown, no_branch_named(absent, there)), figures=figures)


def _age(examination: Examination) -> ProbeAnswer:
    repository, options = examination.repository, examination.options
    grace = ask_grace_period(examination.server, repository, options)
    figures = {
        "min_age_seconds": options.min_age.total_seconds(),
        "grace_period_seconds": grace.total_seconds(),
    }
    if options.min_age < grace:
        return ProbeAnswer(
            f"min_age_hours is {span_text(options.min_age)}, below the grace period of "
            f"{span_text(grace)}, which "
            "allow_unsafe_min_age accepts",
            False,
            "Leave it so only where the data may be lost; else take allow_unsafe_min_age out.",
            figures,
        )
    return ProbeAnswer(
        f"min_age_hours is {span_text(options.min_age)}, the server's grace period is "
        f"{span_text(grace)}",
        figures=figures,
    )


def _tables(examination: Examination) -> ProbeAnswer:
    prefix = ask_table_prefix(examination.server, examination.repository)
    return ProbeAnswer(f"the server keeps them under {prefix}/", figures={"table_prefix": prefix})


def _entries(examination: Examination) -> ProbeAnswer:
    repository = examination.repository
    examination.server.list_entries(repository.id, repository.default_branch, after="")
    return ProbeAnswer(f"entries of {repository.default_branch} can be listed")


def _may(name: str, what: str, lack: str, step: str) -> Question[Examination]:
    """Make the question for one of the heavy calls.

    Args:
        name: Name of the method of `Permissions`.
        what: The call in words.
        lack: What is found when the server does not have it.
        step: What to do then; empty when lakegc does not need the call.
    """

    def ask(examination: Examination) -> ProbeAnswer:
        is_allowed: Callable[[str], bool] = getattr(examination.permissions, name)
        try:
            allowed = is_allowed(examination.repository.id)
        except RepositoryStateError as refusal:
            # That the repository is read-only, or being deleted, is the finding of another
            # question.
            return ProbeAnswer(f"cannot be told: {found_by(refusal).text}", None)
        if allowed:
            return ProbeAnswer("allowed; not done")
        return ProbeAnswer(lack, False if step else None, step)

    return Question("repository", what, ask)


REPOSITORY_QUESTIONS = (
    Question("repository", "description", _exists),
    Question("repository", "namespace", _namespace),
    Question("repository", "kind of store", _kind_of_store),
    Question("repository", "state", _writable),
    Question("repository", "branches", _branches),
    Question("repository", "tags", _tags),
    Question("repository", "rules", _rules),
    Question("repository", "minimum age", _age),
    Question("repository", "own namespace", _own_namespace),
    Question("repository", "imports elsewhere", _imports),
    Question("repository", "tables", _tables),
    Question("repository", "entries", _entries),
    _may(
        "prepare_uncommitted",
        "prepare_uncommitted",
        "the server does not have this call, without which staged objects are unknown",
        "Upgrade the server: no repository of it can be marked.",
    ),
    _may(
        "prepare_commits",
        "prepare_commits",
        "only the synchronous call is there, and asking for its permission would start its work",
        "",
    ),
    _may(
        "dump_refs",
        "refs dump",
        "only the synchronous call is there, and asking for its permission would start its work",
        "",
    ),
)
