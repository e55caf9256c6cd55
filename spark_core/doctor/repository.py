"""Questions about the repository: its state, its rules, and each permission that a mark needs."""

from __future__ import annotations

from collections.abc import Callable

from spark_core.addresses.namespace import Namespace
from spark_core.doctor.patient import Patient
from spark_core.doctor.probe import Found, Question, told
from spark_core.errors import RepositoryStateError
from spark_core.run.preconditions import (
    require_branches,
    require_in_list,
    require_kind_of_store,
    require_old_enough,
    require_own_namespace,
    require_tables_apart,
    require_writable,
)

_NAMED = 5


def _exists(patient: Patient) -> Found:
    server, _ = patient.server, patient.user
    patient.repository = repository = server.repository(patient.repository_id)
    storage = f", storage {repository.storage_id}" if repository.storage_id else ""
    return Found(
        f"created {repository.creation_date:%Y-%m-%d} in {repository.storage_namespace}{storage}",
        figures={"storage_namespace": repository.storage_namespace, "storage_id": repository.storage_id},
    )


def _namespace(patient: Patient) -> Found:
    repository = patient.repository
    storage = patient.storage()
    patient.namespace = namespace = Namespace.parse(
        repository.storage_namespace, server_path=storage.server_path or storage.store_options.local_path
    )
    return Found(f"{namespace.root} can be read", figures={"root": namespace.root})


def _kind_of_store(patient: Patient) -> Found:
    repository, namespace = patient.repository, patient.namespace
    storage = patient.server.storage_config(repository)
    require_kind_of_store(repository, namespace, storage.blockstore_type)
    return Found(f"{storage.blockstore_type}, as the server says", figures={"blockstore_type": storage.blockstore_type})


def _writable(patient: Patient) -> Found:
    require_writable(patient.repository)
    return Found("not read-only")


def _branches(patient: Patient) -> Found:
    server, repository = patient.server, patient.repository
    branches = server.branches(repository.id)
    require_branches(repository, branches)
    patient.branches = branches
    return Found(f"{len(branches):,} (hidden ones too)", figures={"branches": len(branches)})


def _tags(patient: Patient) -> Found:
    tags = patient.server.tags(patient.repository.id)
    protects = (
        "each keeps its commit" if patient.options.tags_protect else "they protect nothing (tags_protect = false)"
    )
    return Found(f"{len(tags):,}; {protects}", figures={"tags": len(tags)})


def _own_namespace(patient: Patient) -> Found:
    repository, namespace = patient.repository, patient.namespace
    others = patient.server.repositories()
    require_in_list(repository, others)
    require_own_namespace(repository, namespace, others, endpoint_of=patient.endpoint_of)
    seen = len(others)
    return Found(
        f"shared or nested with none of the {seen:,} repositories that this user may see",
        figures={"repositories": seen},
    )


def _imports(patient: Patient) -> Found:
    return Found(
        f"not looked for: whether another repository imports objects of {patient.repository.id} (it would have to be read whole)",
        None,
        "If one does, do not sweep this one: what is garbage here may be in use there.",
    )


def _rules(patient: Patient) -> Found:
    rules = patient.server.retention_rules(patient.repository.id)
    if rules is None:
        return Found("none: every commit keeps its objects, and only uncommitted garbage goes", figures={"rules": None})
    shown = f"{rules.default_retention_days:,} days, and {len(rules.branches):,} branches with days of their own"
    figures = {"default_retention_days": rules.default_retention_days, "branch_rules": len(rules.branches)}
    absent = sorted(set(rules.branches) - {branch.id for branch in patient.branches})
    if absent:
        more = f" and {len(absent) - _NAMED:,} others" if len(absent) > _NAMED else ""
        return Found(
            f"{shown}; there is no branch named {', '.join(absent[:_NAMED])}{more}, so such a rule does nothing",
            False,
            "Correct the name with `lakegc rules set`, or leave the rule out.",
            {**figures, "rules_without_branch": absent},
        )
    return Found(shown, figures=figures)


def _age(patient: Patient) -> Found:
    repository, options = patient.repository, patient.options
    grace = patient.server.grace_period()
    require_old_enough(repository, options.min_age, grace, allow_unsafe=options.allow_unsafe_min_age)
    figures = {"min_age_seconds": options.min_age.total_seconds(), "grace_period_seconds": grace.total_seconds()}
    if options.min_age < grace:
        return Found(
            f"min_age {options.min_age} is below the grace period {grace}, which allow_unsafe_min_age accepts",
            False,
            "Leave it so only where the data may be lost; else take allow_unsafe_min_age out.",
            figures,
        )
    return Found(f"min_age {options.min_age}, the server's grace period is {grace}", figures=figures)


def _tables(patient: Patient) -> Found:
    prefix = patient.server.table_prefix(patient.repository.id)
    require_tables_apart(patient.repository, prefix)
    return Found(f"the server keeps them under {prefix}/", figures={"table_prefix": prefix})


def _entries(patient: Patient) -> Found:
    repository = patient.repository
    patient.server.list_entries(repository.id, repository.default_branch, after="")
    return Found(f"entries of {repository.default_branch} can be listed")


def _may(name: str, what: str, lack: str, step: str) -> Question[Patient]:
    """Make the question for one of the heavy calls.

    Args:
        name: Of the method of `Permissions`.
        what: The call in words.
        lack: What is found when the server does not have it.
        step: What to do then; empty when lakegc does without.
    """

    def ask(patient: Patient) -> Found:
        asked: Callable[[str], bool] = getattr(patient.permissions, name)
        try:
            allowed = asked(patient.repository.id)
        except RepositoryStateError as refusal:
            # That the repository is read-only, or being deleted, is the finding of another question.
            return Found(f"cannot be told: {told(refusal).text}", None)
        if allowed:
            return Found("allowed; not done")
        return Found(lack, False if step else None, step)

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
        "only the synchronous call is there, whose permission cannot be asked for without the work",
        "",
    ),
    _may(
        "dump_refs",
        "refs dump",
        "only the synchronous call is there, whose permission cannot be asked for without the work",
        "",
    ),
)
