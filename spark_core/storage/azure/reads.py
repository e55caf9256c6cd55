"""Whole blobs through obstore, with the identity of the store's own client.

Account keys and identities are handed over. A shared access signature is not, because it is part of
the URL. obstore follows redirects, and tells the new place the old URL, signature included. With a
signature, the store's own client reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import obstore
import obstore.store
from azure.core.credentials import (
    AccessToken,
    AzureNamedKeyCredential,
    AzureSasCredential,
    TokenCredential,
)

from spark_core.storage.obstore_reads import (
    ONCE,
    claim_process,
    client_options,
    open_store_of_obstore,
)

if TYPE_CHECKING:
    from obstore.store import AzureCredential

    from spark_core.storage.azure.account import Account
    from spark_core.storage.azure.credentials import Credential
    from spark_core.storage.options import StoreOptions

_SCOPE = "https://storage.azure.com/.default"
# A token is used if it is good for so much longer. A request and its repetitions take less.
_LEAST_LIFE_SECONDS = 300
# An instant in the past: obstore then asks before each request, and the answer is at hand.
_NOT_KEPT = datetime(2000, 1, 1, tzinfo=UTC)


class Identity(TokenCredential):
    """An identity as both clients use it.

    Only the store's own client understands when an account asks for tokens of another tenant. The
    tenant is remembered here.

    Args:
        credential: Gives the tokens.
    """

    def __init__(self, credential: TokenCredential) -> None:
        self._credential = credential
        self._tenant: str | None = None
        self._token = AccessToken("", 0)
        self._renewing = threading.Lock()

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        """Give a token to the store's own client."""
        token = self._credential.get_token(*scopes, **more)
        self._tenant = more.get("tenant_id") or self._tenant
        return token

    def renew(self, *, refused: bool = False) -> None:
        """Have a token at hand for obstore.

        This is done here, not when obstore asks for the token, so that a failure is raised as the
        identity raised it.

        Args:
            refused: Whether the token at hand was refused, and another is wanted.

        Raises:
            AzureError: If none can be had.
        """
        with self._renewing:
            if refused or self._token.expires_on - time.time() < _LEAST_LIFE_SECONDS:
                self._token = self._credential.get_token(_SCOPE, tenant_id=self._tenant)

    def at_hand(self) -> AzureCredential:
        """Give obstore the token at hand."""
        return {"token": self._token.token, "expires_at": _NOT_KEPT}


class BlobReader:
    """Reads from one container.

    Args:
        objects: obstore's own store of the container.
        identity: Signs its requests, unless a key does.
    """

    def __init__(self, objects: obstore.store.AzureStore, identity: Identity | None) -> None:
        self._objects = objects
        self.identity = identity

    def read(self, name: str) -> tuple[bytes, Mapping[str, Any]]:
        """Read a whole blob.

        Args:
            name: In the container; a plain one.

        Returns:
            Its content, and its metadata among other attributes.
        """
        if self.identity is not None:
            self.identity.renew()
        answer = obstore.get(self._objects, name)
        return answer.bytes().to_bytes(), answer.attributes


def open_reader(
    account: Account, container: str, credential: Credential, options: StoreOptions
) -> BlobReader | None:
    """Open a reader of a container; None where the store's own client has to read.

    Raises:
        SettingsError: If it cannot be opened as the environment is.
    """
    if isinstance(credential, AzureSasCredential) or not claim_process():
        return None
    identity = credential if isinstance(credential, Identity) else None
    if isinstance(credential, AzureNamedKeyCredential):
        key: AzureCredential = {"access_key": credential.named_key.key, "expires_at": None}
    objects = open_store_of_obstore(
        lambda: obstore.store.AzureStore(
            container,
            # Every option is set: obstore would take a missing one from variables of the
            # environment that lakegc does not follow.
            config={
                "account_name": account.name,
                "endpoint": account.url,
                "use_emulator": False,
                "use_fabric_endpoint": False,
                "skip_signature": False,
            },
            credential_provider=identity.at_hand if identity else lambda: key,
            client_options=client_options(options, account.url),
            retry_config=ONCE,
        )
    )
    return BlobReader(objects, identity)
