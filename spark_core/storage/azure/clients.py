"""The clients of an Azure storage account, and how long they try."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.storage.blob import (
    BlobClient,
    BlobSasPermissions,
    BlobServiceClient,
    ExponentialRetry,
    generate_blob_sas,
)
from tenacity import retry_if_exception

from spark_core.backoff import Backoff
from spark_core.errors import SettingsError
from spark_core.storage import deletion
from spark_core.storage.azure.account import Account
from spark_core.storage.azure.credentials import Credential, credential_of
from spark_core.storage.azure.errors import is_passing
from spark_core.storage.azure.reads import BlobReader, Identity, open_reader
from spark_core.storage.obstore_reads import Readers
from spark_core.storage.options import StoreOptions
from spark_core.storage.paced_repeats import repeat_after

T = TypeVar("T")

# No wait between two tries is longer, whatever the store asks for.
_LONGEST_WAIT_SECONDS = 60.0
# Size of the pieces of large objects; the client's own 4 MiB mean many requests for a table.
_PIECE_BYTES = 16 << 20

_SIGNATURE = re.compile(r"([?&]sig=)[^&\s]*")


class Patience(ExponentialRetry):
    """The client's own repetition, with an end in time and with respect for `Retry-After`.

    It also repeats obstore's requests, so that both clients are equally patient.
    """

    def __init__(self, options: StoreOptions) -> None:
        retries = options.max_retries
        super().__init__(
            initial_backoff=1,
            increment_base=2,
            random_jitter_range=1,
            retry_total=retries,
            retry_connect=retries,
            retry_read=retries,
            retry_status=retries,
        )
        self._retries = retries
        self._limit_seconds = options.retry_timeout.total_seconds()

    def ask(self, question: Callable[[], T]) -> T:
        """Send a request of obstore, again if that may help; obstore hides `Retry-After`."""
        began = monotonic()
        bounds = Backoff(
            longest_seconds=_LONGEST_WAIT_SECONDS,
            tries=self._retries + 1,
            within_seconds=self._limit_seconds,
        )
        return bounds.ask(
            question,
            again=retry_if_exception(is_passing),
            sleep=deletion.wait,
            spent=lambda: monotonic() - began,
        )

    def configure_retries(self, request: Any) -> dict[str, Any]:
        """Note when to give up."""
        return {
            **super().configure_retries(request),
            "until": monotonic() + self._limit_seconds,
            "asked": 0.0,
        }

    def increment(
        self, settings: dict[str, Any], request: Any, response: Any = None, error: Any = None
    ) -> bool:
        """Say whether to send the request again."""
        if monotonic() >= settings["until"]:
            return False
        after = "" if response is None else str(response.headers.get("Retry-After", ""))
        settings["asked"] = float(after) if after.isdigit() else 0.0
        return bool(super().increment(settings, request, response, error))

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Return how many seconds to wait."""
        wanted = max(super().get_backoff_time(settings), float(settings["asked"]))
        left = float(settings["until"]) - monotonic()
        return max(0.0, min(wanted, left, _LONGEST_WAIT_SECONDS))

    def sleep(
        self,
        settings: dict[str, Any],
        transport: Any,  # noqa: ARG002 - the client's signature
    ) -> None:
        """Wait as deletions wait, and ask before a deletion is repeated whether it still may be."""
        repeat_after(lambda: deletion.wait(self.get_backoff_time(settings)))


class _WithoutSignature(logging.Filter):
    """Removes signatures from the log of the HTTP client, which may log every URL."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass without the signature."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                _SIGNATURE.sub(r"\1...", value) if isinstance(value, str) else value
                for value in record.args
            )
        return True


_without_signature = _WithoutSignature()


class AzureClients:
    """The open clients of one account in one process.

    Attributes:
        service: Azure's own client.
        readers: Read blobs of plain names.
        patience: The repetition policy of both.
    """

    def __init__(self, account: Account, credential: Credential, options: StoreOptions) -> None:
        self.readers = Readers[BlobReader](
            lambda container: open_reader(account, container, credential, options)
        )
        self.patience = Patience(options)
        self.service = BlobServiceClient(
            account.url,
            credential=credential,
            retry_policy=self.patience,
            connection_timeout=options.connect_timeout.total_seconds(),
            read_timeout=options.read_timeout.total_seconds(),
            max_chunk_get_size=_PIECE_BYTES,
            # The service never redirects, so a redirect does not come from the account.
            permit_redirects=False,
        )


def signed_link(service: BlobServiceClient, blob: BlobClient, life: timedelta) -> str | None:
    """Return a URL that reads a page until its life ends; None for a shared access signature.

    An identity asks the account for a key of its own, which is good for a week at most.
    """
    began = datetime.now(UTC)
    how: dict[str, Any] = {}
    if isinstance(service.credential, AzureSasCredential):
        return None
    if isinstance(service.credential, Identity):
        how["user_delegation_key"] = service.get_user_delegation_key(began, began + life)
    else:
        how["account_key"] = service.credential.account_key
    signature = generate_blob_sas(
        str(blob.account_name),
        blob.container_name,
        blob.blob_name,
        permission=BlobSasPermissions(read=True),
        expiry=began + life,
        content_type="text/html",
        **how,
    )
    return f"{blob.url}?{signature}"


@lru_cache(maxsize=16)
def open_clients(account: Account, options: StoreOptions, _process: int) -> AzureClients:
    """Open the clients that all stores of an account share in this process.

    Raises:
        SettingsError: If the credentials cannot be used with this endpoint.
    """
    credential = credential_of(account, options, os.environ)
    if isinstance(credential, AzureSasCredential):
        logging.getLogger("urllib3.connectionpool").addFilter(_without_signature)
    elif not isinstance(credential, AzureNamedKeyCredential):
        credential = Identity(credential)
    try:
        return AzureClients(account, credential, options)
    except ValueError as error:
        problem = "tokens are only sent over TLS" if "HTTPS" in str(error) else "it is not taken"
    raise SettingsError(
        f"{account.url}: these credentials cannot be used there ({problem})",
        "Give an account key or a SAS, or an endpoint with https://.",
    )
