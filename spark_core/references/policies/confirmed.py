"""What people confirmed of a policy: by its digest, so that another document is not confirmed.

Removing entries is undone by a revert; staged entries that are reset cannot come back. So the
second is confirmed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_core import lakegc_keys
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    NotFoundError,
    ObjectExistsError,
    VerdictError,
)
from spark_core.records import tables
from spark_core.records.documents import Count, Document, Instant
from spark_core.records.figures import PolicyExpirationsFigures
from spark_core.references.policies import versions
from spark_core.references.policies.versions import Version
from spark_core.run import Run

# Name by which a person confirms after a mark; see `checks.policies`.
CHECK = "policy_is_confirmed"

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the note of a person about a retention "
    "policy. Delete it, and confirm the policy again."
)


@dataclass(frozen=True)
class ConfirmedPolicy(Document):
    """A policy that a person confirmed.

    Attributes:
        policy_digest: Digest of what the document says.
        number: The version that the person saw.
        instance: Instance of the repository.
        who: Account and machine that confirmed it.
        since: When.
    """

    CALLED: ClassVar[str] = "a confirmation of a retention policy"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    policy_digest: str
    number: Count
    instance: str
    who: str
    since: Instant


def confirmation_of(run: Run, version: Version) -> ConfirmedPolicy | None:
    """Return who confirmed what a version says, for this instance of the repository, and when.

    Raises:
        CorruptTableError: If the confirmation cannot be read.
    """
    key = lakegc_keys.confirmed_policy_key(version.policy_digest)
    return _of_this_instance(run, version, key)


def is_confirmed(run: Run, version: Version) -> bool:
    """Say whether anybody did; raises as `confirmation_of`."""
    return confirmation_of(run, version) is not None


def may_reset(run: Run, version: Version) -> bool:
    """Say whether somebody confirmed that a version may reset staged entries.

    Raises:
        CorruptTableError: If the confirmation cannot be read.
    """
    key = lakegc_keys.confirmed_resets_key(version.policy_digest)
    return _of_this_instance(run, version, key) is not None


def confirm(run: Run, version: Version, who: str) -> ConfirmedPolicy:
    """Confirm a version of the policy; a policy that is confirmed already stays as it is."""
    return _confirm(run, version, who, lakegc_keys.confirmed_policy_key(version.policy_digest))


def confirm_resets(run: Run, version: Version, who: str) -> ConfirmedPolicy:
    """Confirm that a version of the policy may reset staged entries, which cannot come back."""
    return _confirm(run, version, who, lakegc_keys.confirmed_resets_key(version.policy_digest))


def confirm_marked(run: Run, *, who: str) -> ConfirmedPolicy:
    """Confirm the document that a mark looked at, so that later marks let go what it names.

    Args:
        run: A run that was marked; its policy must be the one that counts now.
        who: Account and machine, for the record.

    Raises:
        VerdictError: If the run looked at no policy, or another one counts now.
        CorruptTableError: If an earlier confirmation is not as it was written.
    """
    version = versions.newest(run)
    try:
        named = PolicyExpirationsFigures.of(run.load(tables.POLICY_EXPIRATIONS).manifest)
    except ChainError as missing:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} did not look at a retention policy",
            'Set `policies = "sweep"` for the repository and mark under a new run key.',
        ) from missing
    if version is None or named.policy_digest != version.policy_digest:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} looked at version {named.policy_version} "
            "of the retention policy, and "
            + ("there is none now" if version is None else f"version {version.number} counts now"),
            "Mark under a new run key, look at what the policy names, and confirm that run.",
        )
    return confirm(run, version, who)


def _confirm(run: Run, version: Version, who: str, key: str) -> ConfirmedPolicy:
    confirmed = ConfirmedPolicy(
        policy_digest=version.policy_digest,
        number=version.number,
        instance=run.instance,
        who=who,
        since=run.now(),
    )
    try:
        run.store.put_if_absent(key, confirmed.to_json())
    except ObjectExistsError:
        earlier = _of_this_instance(run, version, key)
        if earlier is not None:
            return earlier
        # It is of an earlier repository of the same name and namespace.
        run.store.put(key, confirmed.to_json())
    return confirmed


def _of_this_instance(run: Run, version: Version, key: str) -> ConfirmedPolicy | None:
    try:
        confirmed = ConfirmedPolicy.from_json(run.store.read(key), name=key)
    except NotFoundError:
        return None
    if confirmed.policy_digest != version.policy_digest:
        raise CorruptTableError(
            key, None, f"it confirms the policy {confirmed.policy_digest[:12]}", _WAY_ON
        )
    return confirmed if confirmed.instance == run.instance else None
