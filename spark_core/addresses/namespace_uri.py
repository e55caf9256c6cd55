"""The URI of a storage namespace, checked and taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from spark_core.addresses.collectable import (
    CONTROL_PATTERN,
    FOLDED_SEGMENT_PATTERN,
    arrow_pattern,
)
from spark_core.errors import AddressError, SettingsError

# The kind of store of each scheme that the server resolves. An address with another one is unknown.
KINDS = {
    "s3": "s3",
    "gs": "gs",
    "mem": "mem",
    "memory": "mem",
    "local": "local",
    "http": "azure",
    "https": "azure",
}
_COLLECTED_KINDS = ("s3", "gs", "azure", "local")
URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

# A URI with one of these has a query, an escape or a user part, and takes the slow path.
SECOND_READING = r"[?%]|://[^/]*@"

_SECOND_READING_PATTERN = arrow_pattern(SECOND_READING)

# Azure's service reads `\` as `/` and drops dots at the end of a segment.
RENAMED_BY_AZURE = r"\\|\.(?:/|$)"
RENAMED_BY_AZURE_PATTERN = arrow_pattern(RENAMED_BY_AZURE)


@dataclass(frozen=True)
class NamespaceUri:
    """The URI of a repository's storage namespace; its fields are those of `Namespace`.

    References:
        lakeFS `pkg/block/namespace.go` and `pkg/block/local/adapter.go`, v1.84.
    """

    uri: str
    server_path: str | None = None

    def __post_init__(self) -> None:
        match = URI.fullmatch(self.uri)
        if match is None or KINDS.get(match[1].lower()) not in _COLLECTED_KINDS:
            raise AddressError(
                f"storage namespace {quoted(self.uri)} has no scheme that can be collected "
                "(s3://, gs://, https://ACCOUNT.blob.../CONTAINER, local://)",
                "Look at the repository's storage_namespace.",
            )
        if _SECOND_READING_PATTERN.search(self.uri) or CONTROL_PATTERN.search(match[2]):
            raise self._strange("holds a query, an escape, a user part or a control character")
        if not self.bucket and self.kind != "local":
            raise self._strange("names no bucket or account")
        if not self.path and self.kind in ("local", "azure"):
            raise self._strange("names no directory or container")
        if self.path and FOLDED_SEGMENT_PATTERN.search(self.path):
            raise self._strange("holds an empty, `.` or `..` segment")
        if self.kind == "azure" and RENAMED_BY_AZURE_PATTERN.search(self.path):
            raise self._strange(
                "holds a backslash or a segment that ends in a dot, which Azure takes for another "
                "name,"
            )
        self._check_server_path()

    def _strange(self, what: str) -> AddressError:
        return AddressError(
            f"storage namespace {quoted(self.uri)} {what}, so its addresses can be read in two "
            "ways",
            "Such a repository has to be collected by hand.",
        )

    def _check_server_path(self) -> None:
        if self.kind != "local":
            return
        if self.server_path is None:
            raise SettingsError(
                f"storage namespace {quoted(self.uri)} lies on a local blockstore, and the "
                "blockstore's path on the server is not set",
                "Linked and staged objects have absolute addresses there: set server_path to the "
                "path that the server's own configuration names (blockstore.local.path).",
            )
        inner = self.server_path.rstrip("/")
        if not self.server_path.startswith("/") or FOLDED_SEGMENT_PATTERN.search(inner[1:]):
            raise SettingsError(
                f"server_path {self.server_path!r} is not an absolute path below / without `.`, "
                "`..` and empty segments",
                "Set it to the path that the server shows in its addresses, "
                "local://<server_path>/...",
            )

    @property
    def scheme(self) -> str:
        """The scheme in lower case, without `://`."""
        return self.uri.partition("://")[0].lower()

    @property
    def kind(self) -> str:
        """The kind of store, as the server's `blockstore_type` names it: s3, gs, azure or local."""
        return KINDS[self.scheme]

    @cached_property
    def root(self) -> str:
        """Normalized URI of the namespace, with one slash at its end and the host in lower case."""
        return f"{self.scheme}://" + "".join(
            f"{part}/" for part in (self.bucket, self.path) if part
        )

    @cached_property
    def bucket(self) -> str:
        """Bucket (S3, GCS) or host (Azure); empty on a local blockstore."""
        return normal_authority(self.kind, self.uri.partition("://")[2])

    @cached_property
    def path(self) -> str:
        """Path below the bucket, host or blockstore, without slashes around it."""
        rest = self.uri.partition("://")[2]
        return (
            rest.rstrip("/") if self.kind == "local" else rest.partition("/")[2].removesuffix("/")
        )

    @cached_property
    def local_forms(self) -> tuple[str, ...]:
        """What may stand between `local://` and a relative address.

        The server joins a FULL address to the blockstore's path once more when it shows it, and
        somebody may stage the address that was shown.
        """
        server = (self.server_path or "").rstrip("/")
        return tuple(
            f"{before}{self.path}/"
            for before in ("", *(f"{server * times}/" for times in (1, 2, 3)))
        )

    @cached_property
    def account(self) -> str:
        """The bucket, or on Azure the account: what tells stores apart."""
        return azure_account(self.bucket) if self.kind == "azure" else self.bucket

    @cached_property
    def own_object(self) -> re.Pattern[str]:
        """Matches a path in which a collectable name follows the namespace."""
        return re.compile(rf"/{re.escape(self.path)}/(?:data/|[0-9a-f]{{32}}\Z)")


def normal_authority(kind: str, rest: str) -> str:
    """Normalize the bucket or host, which is the part up to the first slash.

    A host has no case. Its default port and the three names of one Azure account (blob, dfs, and
    lakeFS's adls) lead to the same objects.
    """
    if kind == "local":
        return ""
    authority = rest.partition("/")[0]
    if kind != "azure":
        return authority
    host = re.sub(r":(?:80|443)\Z", "", authority.lower())
    return re.sub(r"\A([^.:]+)\.(?:dfs|adls)\.", r"\1.blob.", host)


def azure_account(host: str) -> str:
    """Return the account that an Azure host leads to.

    The name of an account has no dash. A suffix behind one (`-secondary`, `-ipv6`) is another way
    to the same account.
    """
    return host.partition(".")[0].partition("-")[0]


def quoted(address: str | None) -> str:
    """Quote an address for a message, without user part and query, which could be credentials."""
    if address is None:
        return "something outside"
    text = re.sub(r"(?s)\?.+", "?...", address)
    text = re.sub(r"(?s)://[^/]*@", "://...@", text)
    return repr(text if len(text) <= 300 else f"{text[:300]}...")
