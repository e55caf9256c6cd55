"""Azure Blob Storage: its own client lists, writes and deletes; obstore reads whole objects.

Azure's client deletes with an answer for each key. obstore reads only some objects:
`obstore_reads.is_plain` tells which names it is given, and `azure.reads` with which credentials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, BinaryIO, ClassVar, NamedTuple

from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient

from spark_core import lakegc_keys
from spark_core.addresses.namespace import Namespace
from spark_core.errors import IncompleteReadError, LakegcError, NotFoundError
from spark_core.storage.after_deletion import AfterDeletion
from spark_core.storage.azure.account import place_of
from spark_core.storage.azure.ambiguous_names import NOT_OF_AZURE, misnamed
from spark_core.storage.azure.clients import AzureClients, open_clients, signed_link
from spark_core.storage.azure.copies import Container
from spark_core.storage.azure.credentials import check_options, credentials_to_carry
from spark_core.storage.azure.deletion import send_bulk
from spark_core.storage.azure.errors import (
    CLIENT_ERRORS,
    deletion_answer,
    explain,
    failure_of,
)
from spark_core.storage.azure.listing_pages import FOLDER, page_of, repeats
from spark_core.storage.azure.page_requests import ask_page
from spark_core.storage.azure.undelete import after_deletion, find_deleted, undelete_hint
from spark_core.storage.deletion import KeyAnswer, one_by_one
from spark_core.storage.endpoint_urls import bare_url
from spark_core.storage.failures import ClientWords
from spark_core.storage.listing_pages import Listed, Page, md5_in_hex
from spark_core.storage.objects import Description, ObjectInfo
from spark_core.storage.obstore_reads import OBSTORE_ERRORS, obstore_failure
from spark_core.storage.options import StoreOptions
from spark_core.storage.outcomes import Pace
from spark_core.storage.paced_repeats import paced
from spark_core.storage.remote import RemoteStore
from spark_core.storage.undelete import BringBack, Lost


class _Opened(NamedTuple):
    """What is open in one process: the clients of the account and of the container."""

    account: AzureClients
    container: ContainerClient


class AzureStore(RemoteStore[_Opened]):
    """A namespace in a container of an Azure storage account."""

    kind = "Azure"
    words = ClientWords(CLIENT_ERRORS, failure_of, explain)
    # The service takes no more than 256.
    delete_batch_size = 256
    unsafe_names = NOT_OF_AZURE
    delete_permission: ClassVar[str] = "Storage Blob Data Contributor (of a SAS: d)"

    def __init__(self, namespace: Namespace, options: StoreOptions) -> None:
        check_options(options, namespace.root)
        super().__init__(namespace, options)

    def _forget(self) -> None:
        super()._forget()
        self._place = place_of(self.namespace, self.options)
        self._bulk = True

    def _carried(self) -> dict[str, Any]:
        return credentials_to_carry(self._place.account, self.options, os.environ)

    def _open(self) -> _Opened:
        clients = open_clients(self._place.account, self.options, os.getpid())
        return _Opened(clients, clients.service.get_container_client(self._place.container))

    @property
    def endpoint_url(self) -> str:
        """Return where the account is reached."""
        return bare_url(self._place.account.url)

    @property
    def _before(self) -> str:
        return self._place.before

    @property
    def _container(self) -> ContainerClient:
        return self._clients.container

    def link(self, key: str, life: timedelta) -> str | None:
        """Sign a URL with the account's key, or one that the account gives this identity.

        With a shared access signature there is none: what can be handed on is that signature.
        """
        blob = self._container.get_blob_client(self._name(key))
        return self._ask(
            "link", "sign a link to", key,
            lambda: signed_link(self._clients.account.service, blob, life),
        )  # fmt: skip

    def _unnameable(self, key: str) -> str | None:
        """Say why Azure would take a key for another name."""
        problem = self._misnamed(key)
        return problem and f"{problem}, and Azure would take it for another name"

    def _unsafe_name(self, key: str) -> str | None:
        problem = self._misnamed(key)
        return problem and f"the key cannot be named safely: it {problem}"

    def _misnamed(self, key: str) -> str | None:
        return misnamed(key, self._before + key)

    def _watch(self, listed: Listed) -> Callable[[Page], None]:
        """Watch for repeated pages: not every kind of account lists by the bytes of the names."""
        last: Page | None = None

        def require(page: Page) -> None:
            nonlocal last
            if repeats(page, last):
                raise IncompleteReadError(
                    f"the listing of {self.root}{listed.prefix} answered the same objects on two "
                    "pages in a row, "
                    "so others may be missing",
                    "The store does not list as Azure does.",
                )
            last = page

        return require

    def _page(
        self,
        listed: Listed,
        token: str,
        *,
        deep: bool,
        after: str,  # noqa: ARG002 - the service lists from no name on
    ) -> Page:
        begin = self._before + listed.prefix
        body = self._ask(
            "list",
            "list",
            listed.prefix,
            lambda: ask_page(self._container, begin, token, deep=deep),
        )
        return page_of(body, listed)

    def head(self, key: str) -> ObjectInfo:
        """Describe one object; a directory of a hierarchical namespace is none."""
        name = self._name(key)
        found = self._ask(
            "head", "head", key, lambda: self._container.get_blob_client(name).get_blob_properties()
        )
        self._refuse_folder("head", key, found.metadata)
        return ObjectInfo(
            key, found.size, found.last_modified, md5_in_hex(found.content_settings.content_md5)
        )

    def _refuse_folder(self, action: str, key: str, metadata: Any) -> None:
        if (metadata or {}).get(FOLDER) == "true":
            raise NotFoundError(
                f"{action} {key!r} of {self.root}: it is a directory, and the store has no such "
                "object",
                "Look whether it was moved or deleted.",
            )

    def _whole(self, name: str) -> bytes:
        data, metadata = self._read(name)
        self._refuse_folder("read", name.removeprefix(self._before), metadata)
        return data

    def _read(self, name: str) -> tuple[bytes, Any]:
        """Read by obstore if it may; the client, which renews tokens, repeats a refused read."""
        clients, container = self._clients
        reader = clients.readers.of(self._place.container, name)
        was_refused = False
        if reader is not None:
            try:
                return clients.patience.ask(lambda: reader.read(name))
            except OBSTORE_ERRORS as error:
                was_refused = reader.identity is not None and failure_of(error).status == 401
                if not was_refused and not obstore_failure(error).is_for_the_other_client:
                    raise
        stream = container.download_blob(name, decompress=False)
        found = stream.readall(), stream.properties.metadata
        if was_refused and reader is not None and reader.identity is not None:
            # The object is here. The next read asks again for a token that cannot be had now.
            with suppress(AzureError):
                reader.identity.renew(refused=True)
        return found

    def _part(self, name: str, start: int, length: int) -> bytes:
        return self._container.download_blob(
            name, offset=start, length=length, decompress=False
        ).readall()

    def _bring(self, name: str, file: BinaryIO) -> None:
        self._container.download_blob(name, decompress=False).readinto(file)

    def _send(self, name: str, content: bytes | BinaryIO, size: int, *, is_new: bool) -> None:
        # Without `overwrite` the condition is `If-None-Match: *`.
        self._container.upload_blob(name, content, length=size, overwrite=not is_new)

    def copy(self, source: str, target: str) -> Description:
        """Copy an object and prove the copy, after an earlier copy to the same place has ended."""
        self._name(target)
        self._copies.finish_left_copy(target)
        return super().copy(source, target)

    @property
    def _copies(self) -> Container:
        return Container(
            self.root,
            self._ask_of_copies,
            self._container,
            self._before,
            self.options.retry_timeout,
        )

    def _send_deletion(self, keys: Sequence[str], pace: Pace) -> Mapping[str, KeyAnswer]:
        """Send one bulk request, or one for each key if the store knows none."""
        if not self._bulk:
            return self._one_by_one(keys, pace)
        container, names = self._container, {self._before + key: key for key in keys}
        self.requests["delete"] += 1
        with paced(pace):
            answers = send_bulk(container, self._place.account, [*names])
        if answers is not None:
            return {names[name]: answer for name, answer in answers.items()}
        self._bulk = False
        pace()
        return self._one_by_one(keys, pace)

    def _one_by_one(self, keys: Sequence[str], pace: Pace) -> Mapping[str, KeyAnswer]:
        with paced(pace):
            return one_by_one(keys, self._delete_one, pace)

    def _delete_one(self, key: str) -> KeyAnswer:
        container = self._container
        self.requests["delete"] += 1
        try:
            container.delete_blob(self._before + key, delete_snapshots="include")
        except CLIENT_ERRORS as error:
            return deletion_answer(failure_of(error), again=False)
        return KeyAnswer("deleted")

    def find_deleted(self, lost: Lost) -> BringBack:
        """Find a blob that soft delete or versions keep."""
        self._name(lost.key)
        return find_deleted(self._copies, lost)

    def after_deletion(self) -> AfterDeletion:
        """Read the account's soft delete, and whether a blob that is written now has a version.

        Both answers are needed for a no: the second is known only where a mark wrote its clock.
        """
        clients, container = self._clients
        try:
            policy = self._properties_of(clients)["delete_retention_policy"]
            version = self._version_of_the_clock(container)
        except (LakegcError, KeyError, TypeError) as problem:
            words = problem.found if isinstance(problem, LakegcError) else "an answer lacks it"
            return AfterDeletion(None, f"soft delete and versions could not be read: {words}")
        return after_deletion(policy, version)

    def undelete_hint(self) -> str | None:
        """Say how long soft delete keeps deleted blobs, and whether versions keep them.

        A sweep needs neither answer.
        """
        clients, container = self._clients
        policy = version = None
        # Only a hint, and it takes a right that a sweep does not need. The documentation tells
        # where to look.
        with suppress(LakegcError):
            policy = self._properties_of(clients).get("delete_retention_policy")
        # Perhaps no mark was made yet, or the credentials may not ask; as above.
        with suppress(LakegcError):
            version = self._version_of_the_clock(container)
        return undelete_hint(policy, version)

    def _properties_of(self, account: AzureClients) -> Any:
        ask = account.service.get_service_properties
        return self._ask("head", "ask the properties of", "", ask)

    def _version_of_the_clock(self, container: ContainerClient) -> Any:
        """Ask for lakegc's own object, which each mark writes anew.

        An object that was written before versions were on has none.
        """
        clock = container.get_blob_client(self._before + lakegc_keys.CLOCK)
        return self._ask("head", "head", lakegc_keys.CLOCK, clock.get_blob_properties).version_id
