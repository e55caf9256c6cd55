"""The versions of a repository's policy: one immutable object for each, the newest one counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_core import lakegc_keys
from spark_core.errors import (
    ChainError,
    CorruptTableError,
    IncompleteReadError,
    NotFoundError,
    ObjectExistsError,
    SettingsError,
)
from spark_core.records.documents import Count, Document, Instant
from spark_core.references.policies.document import Policy
from spark_core.references.policies.faults import PolicyError
from spark_core.references.policies.parsing import of_content
from spark_core.run import Run
from spark_core.storage import ObjectStore

_WAY_ON = (
    "This is a file of lakegc's own, not of the server: a version of the repository's retention "
    "policy. Bring it back as it was written."
)
_KEY = re.compile(rf"{re.escape(lakegc_keys.POLICIES)}([0-9]{{10}})\.json")
# The file that a local store leaves if it was killed while writing.
_UNPUBLISHED = re.compile(rf"{re.escape(lakegc_keys.POLICIES)}\.lakegc-[0-9a-f]{{16}}\.part")


@dataclass(frozen=True)
class Version(Document):
    """One version of a policy.

    Attributes:
        number: From 1 on, without a gap.
        instance: Instance of the repository that it was set for.
        content: The document in its first form; None for a version that ends the policy.
        policy_digest: Digest of what the document says; empty for a version that ends the policy.
        who: Account and machine that set it.
        since: When it was set.
    """

    CALLED: ClassVar[str] = "a version of a retention policy"
    NEXT_STEP: ClassVar[str] = _WAY_ON

    number: Count
    instance: str
    content: Mapping[str, Any] | None
    policy_digest: str
    who: str
    since: Instant

    @property
    def policy(self) -> Policy | None:
        """The document; None for a version that ends the policy.

        Raises:
            CorruptTableError: If what is stored is no policy that this lakegc reads.
        """
        if self.content is None:
            return None
        name = lakegc_keys.policy_key(self.number)
        try:
            policy = of_content(self.content, name=name)
        except PolicyError as wrong:
            raise CorruptTableError(name, None, wrong.found, _WAY_ON) from wrong
        if policy.digest != self.policy_digest:
            raise CorruptTableError(
                name,
                None,
                f"the document's digest is {policy.digest[:12]}, the version says "
                f"{self.policy_digest[:12]}",
                _WAY_ON,
            )
        return policy


def history(store: ObjectStore) -> list[Version]:
    """Read every version, oldest first.

    Args:
        store: Rooted at the namespace.

    Raises:
        CorruptTableError: If a version cannot be read, or something else lies among them.
        IncompleteReadError: If a version is missing: an older one must not count in its place.
    """
    names = sorted(
        name
        for batch in store.list(lakegc_keys.POLICIES)
        for name in batch.column("key").to_pylist()
        if not name.startswith(lakegc_keys.CONFIRMED_POLICIES)
    )
    found: list[Version] = []
    for name in names:
        if _UNPUBLISHED.fullmatch(name):
            continue
        if not _KEY.fullmatch(name):
            raise CorruptTableError(
                name, None, "no version of a policy, and nothing else belongs there", _WAY_ON
            )
        if name != lakegc_keys.policy_key(len(found) + 1):
            raise _missing(store, len(found) + 1)
        found.append(_read(store, len(found) + 1))
    # A listing that was lost on the way also shows no more versions.
    if store.exists(lakegc_keys.policy_key(len(found) + 1)):
        raise _missing(store, len(found) + 1)
    return found


def newest(run: Run) -> Version | None:
    """Read the version that counts; None if the repository has no policy.

    Raises:
        ChainError: If it was set for another instance of the repository.
    """
    found = history(run.store)
    if not found or found[-1].content is None:
        return None
    version = found[-1]
    if version.instance != run.instance:
        raise ChainError(
            f"version {version.number} of the retention policy under {run.store.root} was set for "
            f"{version.instance!r}, the server now has {run.instance!r}",
            "Read it (`lakegc retention get --history`), and set the policy anew, or delete it "
            f"(`lakegc retention delete {run.repository.id}`).",
        )
    return version


def store_version(run: Run, policy: Policy | None, *, who: str) -> Version:
    """Store a new version, or one that ends the policy.

    Args:
        run: The repository, opened.
        policy: The document; None ends the policy.
        who: Who sets it.

    Returns:
        The stored version. A document that says the same as the newest version is not stored again.

    Raises:
        SettingsError: If somebody else sets one at the same time.
        NotFoundError: If there is no policy to end.
    """
    before = history(run.store)
    last = before[-1] if before else None
    ended = last is None or last.content is None
    if policy is None and ended:
        raise NotFoundError(f"repository {run.repository.id} has no retention policy.")
    if (
        last is not None
        and policy is not None
        and last.policy_digest == policy.digest
        and last.instance == run.instance
    ):
        return last
    version = Version(
        number=len(before) + 1,
        instance=run.instance,
        content=None if policy is None else policy.content(),
        policy_digest="" if policy is None else policy.digest,
        who=who,
        since=run.now(),
    )
    key = lakegc_keys.policy_key(version.number)
    try:
        run.store.put_if_absent(key, version.to_json())
    except ObjectExistsError:
        there = _read(run.store, version.number)
        # It is ours if the first answer was lost and the client asked again.
        if there != version:
            raise SettingsError(
                f"version {version.number} of the retention policy of {run.repository.id} was set "
                f"by {there.who} at the same time",
                "Look at it (`lakegc retention get`), and set yours again if it is to count.",
            ) from None
    return version


def _read(store: ObjectStore, number: int) -> Version:
    key = lakegc_keys.policy_key(number)
    try:
        version = Version.from_json(store.read(key), name=key)
    except NotFoundError:
        raise _missing(store, number) from None
    if version.number != number:
        raise CorruptTableError(key, None, f"it is version {version.number}", _WAY_ON)
    return version


def _missing(store: ObjectStore, number: int) -> IncompleteReadError:
    return IncompleteReadError(
        f"version {number} of the retention policy under {store.root}{lakegc_keys.POLICIES} cannot "
        "be read, although there are signs of it; what the policy says is unknown",
        "Run again; if it stays, bring that object back.",
    )
