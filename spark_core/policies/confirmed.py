"""Confirmations of a policy's document: a person saw what it names, and lets sweeps take that.

A confirmation is of what a document says, by its digest, and holds for each version that says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_core import lakegc_keys
from spark_core.errors import ChainError, NotFoundError, ObjectExistsError, VerdictError
from spark_core.policies import versions
from spark_core.policies.versions import Version
from spark_core.records import tables
from spark_core.records.documents import Count, Document, Instant
from spark_core.run import Run

# Name by which a person confirms; see `checks.policies`.
CHECK = "policy_is_confirmed"

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: the note of a person about a retention "
    "policy. Delete it, and confirm the policy again (`lakegc confirm`)."
)


@dataclass(frozen=True)
class Confirmed(Document):
    """A document that a person confirmed.

    Attributes:
        policy_digest: Digest of what the document says.
        instance: Instance of the repository that it was confirmed for.
        version: Number of its version then.
        run: Run key of the mark whose figures the person saw.
        objects: Objects that the document named in that mark ...
        size_bytes: ... and their bytes.
        who: Account and machine.
        confirmed_at: When.
    """

    FORMAT: ClassVar[int] = 1
    # 1: 0.1.0.
    FORMATS: ClassVar[tuple[int, ...]] = (1,)
    CALLED: ClassVar[str] = "a confirmation of a retention policy"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    policy_digest: str
    instance: str
    version: Count
    run: str
    objects: Count
    size_bytes: Count
    who: str
    confirmed_at: Instant


def is_confirmed(run: Run, version: Version) -> bool:
    """Say whether a person confirmed what a version says, for this instance of the repository.

    Raises:
        CorruptTableError: If the confirmation is not as it was written.
    """
    found = _load(run, version.policy_digest)
    return found is not None and found.instance == run.instance


def confirm(run: Run, *, who: str) -> Confirmed:
    """Confirm the document that a mark looked at, so that later marks let go what it names.

    Args:
        run: A run that was marked; its policy must be the one that counts now.
        who: Account and machine, for the record.

    Returns:
        The confirmation; an earlier one of the same document stands.

    Raises:
        VerdictError: If the run looked at no policy, or another one counts now.
        CorruptTableError: If an earlier confirmation is not as it was written.
    """
    version = versions.newest(run)
    try:
        facts = run.load(tables.POLICY_EXPIRATIONS).manifest.facts
    except ChainError as missing:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} did not look at a retention policy",
            'Set `policies = "sweep"` for the repository and mark under a new run key.',
        ) from missing
    if version is None or facts.get("policy_digest") != version.policy_digest:
        raise VerdictError(
            f"run {run.key} of {run.repository.id} looked at version {facts.get('policy_version')} "
            "of the retention policy, and "
            + ("there is none now" if version is None else f"version {version.number} counts now"),
            "Mark under a new run key, look at what the policy names, and confirm that run.",
        )
    written = Confirmed(
        policy_digest=version.policy_digest,
        instance=run.instance,
        version=version.number,
        run=str(run.key),
        objects=facts["policy_objects"],
        size_bytes=facts["policy_bytes"],
        who=who,
        confirmed_at=run.now(),
    )
    key = lakegc_keys.confirmed_policy_key(version.policy_digest)
    try:
        run.store.put_if_absent(key, written.to_json())
    except ObjectExistsError:
        earlier = _load(run, version.policy_digest)
        if earlier is not None and earlier.instance == run.instance:
            return earlier
        # A repository of the same name and namespace was made anew: the document is unseen there.
        run.store.put(key, written.to_json())
    return written


def _load(run: Run, policy_digest: str) -> Confirmed | None:
    key = lakegc_keys.confirmed_policy_key(policy_digest)
    try:
        return Confirmed.from_json(run.store.read(key), name=key)
    except NotFoundError:
        return None
