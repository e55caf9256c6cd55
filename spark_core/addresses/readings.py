"""Read one address: which object of a namespace it names, unless it could be read in two ways.

Every comparison of addresses goes through this module, so that two forms of one object never count
as two objects. That mistake would delete live data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from unicodedata import normalize
from urllib.parse import unquote

from spark_core.addresses.collectable import CONTROL_PATTERN, FOLDED_SEGMENT_PATTERN, is_given_name
from spark_core.addresses.namespace_uri import (
    KINDS,
    RENAMED_BY_AZURE_PATTERN,
    URI,
    NamespaceUri,
    azure_account,
    normal_authority,
    quoted,
)
from spark_core.errors import AddressError

# An address with more readings than this is refused without looking at all of them.
_MOST_READINGS = 1_000
# A bucket or a host of which there is one reading.
_PLAIN = re.compile(r"[A-Za-z0-9._:-]+")


class AddressType(IntEnum):
    """How the address of an entry is resolved (lakeFS `catalog.proto`)."""

    BY_PREFIX = 0
    RELATIVE = 1
    FULL = 2


def relative(namespace: NamespaceUri, address: str, address_type: int) -> str | None:
    """Return the address relative to the namespace, None outside; see `Namespace.relative`."""
    if not address or "\0" in address:
        raise _unknown(address, "is empty or holds a NUL")
    if address_type == AddressType.RELATIVE:
        return _checked(namespace, address, address)
    match = URI.fullmatch(address)
    known = match is not None and match[1].lower() in KINDS
    if address_type == AddressType.FULL:
        if not known:
            raise _unknown(
                address, f"is FULL and does not begin with a known scheme ({', '.join(KINDS)})"
            )
        return _cut_out(namespace, address)
    if address_type == AddressType.BY_PREFIX:
        return _cut_out(namespace, address) if known else _checked(namespace, address, address)
    raise _unknown(address, f"has the address type {address_type}, which is none of 0, 1, 2")


def _cut_out(namespace: NamespaceUri, address: str) -> str | None:
    scheme, _, rest = address.partition("://")
    if KINDS[scheme.lower()] != namespace.kind:
        return None
    plain, folded = _cut(namespace, rest), _cut(namespace, _folded(namespace, rest))
    if plain != folded and _may_be_collected(namespace, rest):
        raise _unknown(
            address,
            f"could be read as {quoted(plain)} or as {quoted(folded)} of {namespace.root}",
        )
    if plain is not None:
        return _checked(namespace, plain, address, absolute=True)
    _suspect_server_path(namespace, address, rest)
    return None


def _folded(namespace: NamespaceUri, rest: str) -> str:
    """Return the other reading of what follows `scheme://`; see `_fold`.

    On Azure the server knows an account by the first label of its host alone, whatever domain
    follows; a suffix behind a dash in that label is another way to the same account. Some
    stores that speak S3 ignore the case of a bucket (where it is a host). Some (MinIO) drop
    slashes before a key and then fold the rest of it. On other stores these are other objects.
    """
    folded = _fold(namespace.kind, rest)
    if namespace.kind == "local":
        return folded
    authority, slash, path = folded.partition("/")
    if namespace.kind != "azure":
        if authority.lower() == namespace.bucket.lower():
            authority = namespace.bucket
        return (
            authority + slash + (_fold("local", path.lstrip("/")) if path.startswith("/") else path)
        )
    if azure_account(authority.lower()) == namespace.account:
        authority = namespace.bucket
    segments: list[str] = []
    for segment in path.replace("\\", "/").split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment.rstrip("."))
    return authority + slash + "/".join(segments).strip("/")


def _may_be_collected(namespace: NamespaceUri, rest: str) -> bool:
    """Say whether what follows `scheme://` has any reading that could be collected.

    People keep files of their own beside `data/` and stage them, with colons escaped (`%3A`) in the
    names of Hive partitions. It does not matter which reading such an address means, because none
    of them is ever deleted.
    """
    if namespace.kind == "local":
        return True
    for reading in _every_reading(namespace, rest, ends="?#"):
        inside = _cut(namespace, reading)
        if inside is not None and (inside.startswith("data/") or is_given_name(inside, flat=True)):
            return True
    return False


def _every_reading(namespace: NamespaceUri, *begin: str, ends: str) -> Iterator[str]:
    """Yield every reading of what follows `scheme://`, as it stands and decoded until it stays.

    What has more readings than anybody means may mean an object of the namespace as well.

    Args:
        namespace: The namespace whose store reads it.
        begin: The text, in the forms that are known beforehand.
        ends: Characters at which somebody may cut it.
    """
    readings, seen = [*begin], set[str]()
    while readings and len(seen) < _MOST_READINGS:
        reading = readings.pop()
        if reading in seen:
            continue
        seen.add(reading)
        yield reading
        authority, slash, path = reading.partition("/")
        if namespace.kind != "local":
            readings.append(authority + slash + _fold("local", path.lstrip("/")))
        readings += [
            _folded(namespace, reading),
            unquote(reading),
            *(reading.partition(mark)[0] for mark in ends),
        ]
    if readings:
        yield f"{namespace.root}data/".partition("://")[2]


def overlap(namespace: NamespaceUri, uri: str) -> str | None:
    """Say how far another repository's storage namespace is known to overlap; None if it does not.

    It overlaps if it is the same, or lies inside or around. Collecting one of such a pair could
    delete objects that only the other one references. The other URI may be one that `Namespace`
    refuses, so each of its readings is compared: as it stands, decoded, folded, cut at `?`, and
    without case where a bucket or a file system may have none. A scheme that nobody knows may be
    another word for ours. Two buckets do not overlap.

    Args:
        namespace: The namespace in question.
        uri: The other one, as the server gives it.

    Examples:
        >>> from spark_core.addresses.namespace import Namespace
        >>> ours = Namespace.parse("s3://lake/sales")
        >>> overlap(ours, "s3://lake/sales/inner")
        'share a storage namespace'
        >>> overlap(ours, "s3://lake/s%61les")
        "may share a storage namespace, as one reading of the second is 's3://lake/sales'"
        >>> overlap(ours, "s3://other/s%61les")
    """
    match = URI.fullmatch(uri)
    kind = KINDS.get(match[1].lower()) if match else None
    if kind not in (None, namespace.kind):
        return None
    rest = match[2] if match else uri
    bucket = _bucket_of(namespace, rest.partition("?")[0])
    if _PLAIN.fullmatch(bucket) and bucket.lower() != namespace.account.lower():
        return None
    no_bucket = rest[:1] in ("", "/")
    begin = (
        rest,
        rest.lstrip("/"),
        CONTROL_PATTERN.sub("", rest),
        namespace.bucket * no_bucket + rest,
    )
    readings = {
        form
        for reading in _every_reading(namespace, *begin, ends="?")
        for form in (reading, _in_own_letters(namespace, reading))
    }
    overlapping = [reading for reading in sorted(readings) if _overlaps(namespace, reading)]
    if not overlapping:
        return None
    if kind and len(overlapping) == len(readings):
        return "share a storage namespace"
    read = quoted(f"{namespace.scheme}://{overlapping[0]}")
    return f"may share a storage namespace, as one reading of the second is {read}"


def _overlaps(namespace: NamespaceUri, rest: str) -> bool:
    forms: tuple[str, ...] = namespace.local_forms
    path = rest
    if namespace.kind != "local":
        path = rest.partition("/")[2]
        if _bucket_of(namespace, rest) != namespace.account:
            return False
        forms = (f"{namespace.path}/" if namespace.path else "",)
    path = f"{path.rstrip('/')}/" if path.rstrip("/") else ""
    return any(path.startswith(form) or form.startswith(path) for form in forms)


def _bucket_of(namespace: NamespaceUri, rest: str) -> str:
    """Return the bucket in what follows `scheme://`, on Azure the account; empty for a file."""
    host = normal_authority(namespace.kind, rest)
    return azure_account(host) if namespace.kind == "azure" else host


def _in_own_letters(namespace: NamespaceUri, rest: str) -> str:
    """Return a local path in the letters of the namespace, if it differs from it by case alone."""
    mine, theirs = namespace.path.split("/"), rest.split("/")
    same = min(len(mine), len(theirs))
    begins = ("/".join(each[:same]) for each in (mine, theirs))
    if (
        namespace.kind == "local"
        and len({normalize("NFC", each).casefold() for each in begins}) == 1
    ):
        return "/".join(mine[:same] + theirs[same:])
    return rest


def _cut(namespace: NamespaceUri, rest: str) -> str | None:
    """Cut the namespace off what follows `scheme://`; None when it does not begin with it."""
    if namespace.kind == "local":
        return next(
            (rest[len(form) :] for form in namespace.local_forms if rest.startswith(form)), None
        )
    authority, _, path = rest.partition("/")
    if normal_authority(namespace.kind, authority) != namespace.bucket or len(authority) == len(
        rest
    ):
        return None
    before = f"{namespace.path}/" if namespace.path else ""
    return path[len(before) :] if path.startswith(before) else None


def _checked(
    namespace: NamespaceUri, relative: str, address: str, *, absolute: bool = False
) -> str:
    """Refuse a relative address that the store would resolve to another name."""
    if not relative:
        raise _unknown(address, "names the namespace itself")
    if relative.startswith("/") and not absolute:
        raise _unknown(address, "is relative and begins with a slash")
    if namespace.kind == "local" and FOLDED_SEGMENT_PATTERN.search(relative):
        raise _unknown(
            address, "holds an empty, `.` or `..` segment, which a file system folds away"
        )
    if namespace.kind == "azure" and RENAMED_BY_AZURE_PATTERN.search(relative):
        raise _unknown(
            address,
            "holds a backslash or a segment that ends in a dot, which Azure takes for another name",
        )
    return relative


def _suspect_server_path(namespace: NamespaceUri, address: str, rest: str) -> None:
    """Refuse an address that looks like an object of this namespace below another path.

    With a wrong `server_path`, for instance a parent of the right one, every linked object
    would lie outside and so be expired. An import from a folder that ends like the namespace
    looks the same, so it is refused as well. The other path may also be a relative one.
    """
    if namespace.kind != "local":
        return
    if any(namespace.own_object.search(f"/{form}") for form in (rest, _fold(namespace.kind, rest))):
        raise _unknown(
            address,
            f"looks like an object of {namespace.root}, but is none with server_path "
            f"{namespace.server_path!r} (correct that setting if the server names its blockstore "
            "otherwise)",
        )


def _fold(kind: str, rest: str) -> str:
    """Return the other reading of what follows `scheme://`.

    A local path is folded. Elsewhere the query, the escapes and the user part are resolved.
    """
    if kind == "local":
        segments: list[str] = []
        for segment in rest.split("/"):
            if segment == "..":
                del segments[-1:]
            elif segment not in ("", "."):
                segments.append(segment)
        return ("/" if rest.startswith("/") else "") + "/".join(segments)
    authority, slash, path = rest.partition("/")
    authority, question, _ = authority.partition("?")
    if question:
        return authority.rpartition("@")[2]
    return unquote(authority).rpartition("@")[2] + slash + unquote(path.partition("?")[0])


def _unknown(address: str, what: str) -> AddressError:
    return AddressError(
        f"address {quoted(address)} {what}; whether it is alive cannot be decided",
        "Find the entry that has it and report the form, or remove the entry.",
    )
