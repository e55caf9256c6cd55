"""What people confirmed of a policy: by its digest, so that another document is not confirmed.

A confirmation never changes, and is created only if it is absent. Removing entries is undone by a
revert; staged entries that are reset cannot come back. So the second is confirmed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_core import lakegc_keys
from spark_core.errors import CorruptTableError, NotFoundError, ObjectExistsError
from spark_core.policies.versions import Version
from spark_core.records.documents import Count, Document, Instant
from spark_core.run import Run
from spark_core.storage import ObjectStore

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

    FORMAT: ClassVar[int] = 1
    # 1: 0.1.0.
    FORMATS: ClassVar[tuple[int, ...]] = (1,)
    CALLED: ClassVar[str] = "a confirmation of a retention policy"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    policy_digest: str
    number: Count
    instance: str
    who: str
    since: Instant


def is_confirmed(store: ObjectStore, digest: str) -> bool:
    """Say whether somebody confirmed the policy of a digest.

    Raises:
        CorruptTableError: If the confirmation cannot be read.
    """
    return _is_there(store, lakegc_keys.confirmed_policy_key(digest), digest)


def may_reset(store: ObjectStore, digest: str) -> bool:
    """Say whether somebody confirmed that the policy of a digest may reset staged entries.

    Raises:
        CorruptTableError: If the confirmation cannot be read.
    """
    return _is_there(store, lakegc_keys.confirmed_resets_key(digest), digest)


def confirm(run: Run, version: Version, who: str) -> ConfirmedPolicy:
    """Confirm a version of the policy; a policy that is confirmed already stays as it is."""
    return _confirm(run, version, who, lakegc_keys.confirmed_policy_key(version.policy_digest))


def confirm_resets(run: Run, version: Version, who: str) -> ConfirmedPolicy:
    """Confirm that a version of the policy may reset staged entries, which cannot come back."""
    return _confirm(run, version, who, lakegc_keys.confirmed_resets_key(version.policy_digest))


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
        return _read(run.store, key, version.policy_digest)
    return confirmed


def _is_there(store: ObjectStore, key: str, digest: str) -> bool:
    try:
        _read(store, key, digest)
    except NotFoundError:
        return False
    return True


def _read(store: ObjectStore, key: str, digest: str) -> ConfirmedPolicy:
    confirmed = ConfirmedPolicy.from_json(store.read(key), name=key)
    if confirmed.policy_digest != digest:
        raise CorruptTableError(
            key, None, f"it confirms the policy {confirmed.policy_digest[:12]}", _WAY_ON
        )
    return confirmed
