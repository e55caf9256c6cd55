"""What clears a candidate of being the twin of an entry: its size, and its content.

A candidate may be the twin of an entry of its own size. What is known of its content may clear it
against entries with another checksum. In the order of their price, that is:

- What its own entries in expired commits say. The server makes checksums when it takes an upload,
  and all entries of that object carry on what it made. To be the twin, the object would have an
  entry with the checksum of the other.
- The checksum of the listing, of an object without such entries, where the listing says that it is
  the MD5 of the content.
- The answer of the store that was asked for the MD5 of its content.

A client can give a checksum, too (`docs/decisions/hidden-entries.md`). So nothing is believed of an
object whose name is signed, or whose entries give several checksums, another size, or another
checksum than the store. What entries and the listing say counts only against an entry whose own
object was listed, below `data/`. The MD5 of a content counts only against a checksum that is one.

Candidates and what is known of them meet by the hashes of their addresses, and so do entries and
listed objects. Each gets keys: hashes of what a candidate and an entry must share. Hashes decide
about nothing but whom to ask: where two are equal by accident, more is asked, or more is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from spark_core.addresses.address_hashes import are_among, hashed, place_among, sorted_once
from spark_core.references.expired_entries import SAID
from spark_core.references.head_entries import STATED, HeadEntries, SeenInStore
from spark_core.references.stated import stated_by_the_store
from spark_core.references.twins.candidates_by_time import CANDIDATES
from spark_core.spark.exchange import AnySource, Batches, no_rows, numbers_of

# What the entries of an object say of it: ends, which are equal where all agree.
_SAID = pa.schema(
    [
        pa.field(name, pa.int64(), nullable=False)
        for name in (
            "address_hash",
            "least_bytes",
            "most_bytes",
            "least_checksum",
            "most_checksum",
        )
    ]
)

# What a key is made of: a size alone, or what is known of a content. Of each kind of knowledge
# there are two: the content, and, for entries against which it does not count, the size.
_OF_SIZE, _OF_ANSWER, _OF_NO_ANSWER, _OF_SAID, _OF_UNSAID, _OF_LISTED, _OF_UNLISTED = range(1, 8)


@dataclass(frozen=True)
class Used:
    """Which kinds of knowledge are there, and believed.

    Attributes:
        said: What entries of expired commits say.
        listed: The listing's MD5s, as those of contents.
        answered: What the store answered.
    """

    said: bool = False
    listed: bool = False
    answered: bool = False


@dataclass(frozen=True)
class Evidence:
    """What is known of the contents of candidates.

    Attributes:
        said: What entries of expired commits say: columns of `_SAID`.
        listed: The store's objects, with the MD5s that it tells: columns of `STATED`.
        answered: MD5s of contents that the store was asked for: columns of `STATED`.
        used: Which of these count.
        seen: Hashes of the objects that were seen in the store, where `listed` has others, too:
            columns of `HASHES`; None where it has not.
    """

    said: AnySource = field(default_factory=partial(no_rows, _SAID))
    listed: AnySource = field(default_factory=partial(no_rows, STATED))
    answered: AnySource = field(default_factory=partial(no_rows, STATED))
    used: Used = Used()
    seen: AnySource | None = None

    @classmethod
    def of(
        cls,
        said: AnySource | None,
        heads: HeadEntries,
        seen: SeenInStore | None,
        *,
        lists_content: bool,
    ) -> Evidence:
        """Take for true what entries say of the candidates, and what the listing does.

        Args:
            said: Columns of `expired_entries.SAID`; None for nothing.
            heads: The entries of branch heads, with the listing.
            seen: What of the listing was seen; None for all of it.
            lists_content: Whether the listing's MD5s are those of contents. Else they can only deny
                what entries say.
        """
        found = cls(
            listed=heads.listing().through(STATED, stated_by_the_store),
            used=Used(said is not None, lists_content),
            seen=None if seen is None else seen.there,
        )
        return found if said is None else replace(found, said=said.through(_SAID, _ends, _agreed))

    def with_answers(self, answered: AnySource) -> Evidence:
        """Take for true what the store answered: columns of `STATED`."""
        return replace(self, answered=answered, used=replace(self.used, answered=True))

    @property
    def sources(self) -> dict[str, AnySource]:
        """All of it, for an exchange."""
        known = {"said": self.said, "listed": self.listed, "answered": self.answered}
        return known if self.seen is None else {**known, "seen": self.seen}


def _ends(batches: Batches) -> Batches:
    for batch in batches:
        hashes, sizes, checksums = (batch.column(name) for name in SAID.names)
        yield pa.record_batch([hashes, sizes, sizes, checksums, checksums], schema=_SAID)


def _agreed(said: pa.Table) -> pa.Table:
    """Make one row of those of each object."""
    hashes, *ends = (numbers_of(said[name]) for name in _SAID.names)
    how = (np.minimum, np.maximum) * 2
    return pa.table(list(grouped(hashes, *zip(how, ends, strict=True))), schema=_SAID)


def keys_of_candidates(used: Used, bucket: Mapping[str, pa.Table]) -> tuple[Any, Any]:
    """Give candidates keys, of which an entry must have one to hide the candidate.

    Dishonest candidates get none.

    Args:
        used: What counts.
        bucket: Candidates (columns of `CANDIDATES`), and what is known of their contents.

    Returns:
        The row of a candidate for each key, and the keys.
    """
    hashes, sizes, _, is_dishonest = (
        numbers_of(bucket["candidates"][name]) for name in CANDIDATES.names
    )
    has_entries, is_said, said = _said_of(hashes, sizes, bucket)
    _, is_answered, answered = _stated_of(hashes, bucket["answered"])
    is_answered &= ~has_entries | is_said
    is_said &= ~is_answered
    _, is_stated, stated = _stated_of(hashes, bucket["listed"])
    is_stated &= ~has_entries & ~is_answered & used.listed
    rows, keys = [], []
    for is_known, content, known, unknown in (
        (is_answered, answered, _OF_ANSWER, _OF_NO_ANSWER),
        (is_said, said, _OF_SAID, _OF_UNSAID),
        (is_stated, stated, _OF_LISTED, _OF_UNLISTED),
    ):
        some = np.flatnonzero(~is_dishonest & is_known)
        rows += [some, some]
        keys += [_keys(known, sizes[some], content[some]), _keys(unknown, sizes[some])]
    others = np.flatnonzero(~(is_dishonest | is_answered | is_said | is_stated))
    return np.concatenate([*rows, others]), np.concatenate([*keys, _keys(_OF_SIZE, sizes[others])])


def keys_of_entries(used: Used, bucket: Mapping[str, pa.Table]) -> list[Any]:
    """Give entries of heads their keys: an array of as many for each kind of knowledge.

    Nobody compared the checksum of an object that lies outside.

    Args:
        used: What counts.
        bucket: Entries, and the listing.
    """
    own, sizes, checksum, is_md5, is_outside = (
        numbers_of(bucket["entries"][name])
        for name in ("address_hash", "size_bytes", "checksum", "is_md5", "is_outside")
    )
    seen = sorted_once(numbers_of(bucket.get("seen", bucket["listed"])["address_hash"]))
    is_seen = are_among(own, seen) & ~is_outside
    # A clean mark saw every object that there is.
    is_there = is_seen if "seen" in bucket else ~is_outside
    keys = [_keys(_OF_SIZE, sizes)]
    for is_used, is_believed, known, unknown in (
        (used.said, is_seen & _is_checksum(checksum), _OF_SAID, _OF_UNSAID),
        (used.listed, is_seen & is_md5, _OF_LISTED, _OF_UNLISTED),
        (used.answered, is_there & is_md5, _OF_ANSWER, _OF_NO_ANSWER),
    ):
        if is_used:
            content = _keys(known, sizes, checksum)
            keys.append(np.where(is_believed, content, _keys(unknown, sizes)))
    return keys


def _said_of(hashes: Any, sizes: Any, bucket: Mapping[str, pa.Table]) -> tuple[Any, Any, Any]:
    """Say of each object whether it has entries, whether they give one checksum, and which.

    Two checksums of one hash may look as one. An entry with either of them then looks like an
    object's own, and is asked about.
    """
    of, least_bytes, most_bytes, least, most = (
        numbers_of(_agreed(bucket["said"])[name]) for name in _SAID.names
    )
    at = place_among(hashes, of)
    checksum = np.append(least, 0)[at]
    is_one = np.append((least == most) & (least_bytes == most_bytes), False)[at]
    is_said = is_one & (np.append(least_bytes, -1)[at] == sizes) & _is_checksum(checksum)
    is_stated, is_one_stated, stated = _stated_of(hashes, bucket["listed"])
    is_denied = is_stated & ~(is_one_stated & (stated == checksum))
    return at < len(of), is_said & ~is_denied, checksum


def _stated_of(hashes: Any, stated: pa.Table) -> tuple[Any, Any, Any]:
    """Say of each object whether a content is stated, whether it is one, and which.

    Two objects of one hash may have two contents. Then neither is known.
    """
    told = stated.filter(stated["checksum"].is_valid())
    checksum = numbers_of(told["checksum"])
    of, least, most = grouped(
        numbers_of(told["address_hash"]), (np.minimum, checksum), (np.maximum, checksum)
    )
    at = place_among(hashes, of)
    return at < len(of), np.append(least == most, False)[at], np.append(least, 0)[at]


def _is_checksum(checksum: Any) -> Any:
    """Say of the hash of each checksum whether there is one."""
    return ~np.isin(checksum, hashed(pa.array([None, ""], pa.string())).to_numpy())


def _keys(made_of: int, sizes: Any, contents: Any = None) -> Any:
    """Hash what a candidate and an entry share."""
    mixed = (sizes.view(np.uint64) + np.uint64(made_of)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(made_of)
    if contents is not None:
        mixed = (mixed ^ contents.view(np.uint64)) * np.uint64(0x165667B19E3779F9)
    return (mixed ^ (mixed >> np.uint64(29))).view(np.int64)


def begins_of(ordered: Any) -> Any:
    """Return where each run of equal numbers begins."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: ordered.size]


def grouped(keys: Any, *columns: tuple[Any, Any]) -> tuple[Any, ...]:
    """Make one row of those of each key: keys, sorted, and columns, each summed up its own way."""
    order = np.argsort(keys)
    ordered = keys[order]
    begins = begins_of(ordered)
    if not begins.size:
        return (ordered, *(column[:0] for _, column in columns))
    return (
        ordered[begins],
        *(how.reduceat(column[order], begins) for how, column in columns),
    )
