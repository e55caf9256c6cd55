"""The proof of a demo: every object is asked for through the lakeFS API and looked for in store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from lakefs_sdk.api.objects_api import ObjectsApi
from lakefs_sdk.api_client import ApiClient
from lakefs_sdk.configuration import Configuration
from lakefs_sdk.exceptions import ApiException

from lakegc_dagster.sandbox.story import Story, StoryFile
from spark_core.lakefs import ServerOptions
from spark_core.storage import ObjectStore


@dataclass(frozen=True)
class Proof:
    """What the proof found.

    Attributes:
        answered_gone: Deleted objects whose path still leads to them and answers 410.
        absent: Deleted objects that no path leads to any more, and that are not in the store.
        read: Kept objects that were read through the API, address and bytes as uploaded.
        read_from_store: Kept objects that no path leads to, read from the store, bytes as uploaded.
        listed: Objects under `data/` in the store.
        failures: What is not as it ought to be, in words.
    """

    answered_gone: int
    absent: int
    read: int
    read_from_store: int
    listed: int
    failures: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether everything is as it ought to be, and there was something to prove."""
        return not self.failures and bool(self.answered_gone) and bool(self.read)


class ApiReader:
    """Reads objects through the API alone, as any client of lakeFS does.

    Args:
        options: The server.
        repository_id: The repository.
    """

    def __init__(self, options: ServerOptions, repository_id: str) -> None:
        configuration = Configuration(
            host=f"{options.endpoint.removesuffix('/').removesuffix('/api/v1')}/api/v1",
            username=options.access_key_id,
            password=options.secret_access_key,
        )
        self._objects = ObjectsApi(ApiClient(configuration))
        self._repository_id = repository_id

    def read(self, ref: str, path: str) -> bytes | None:
        """Read an object; None when the server answers 410 (gone).

        Raises:
            ApiException: For any other answer.
        """
        try:
            return bytes(self._objects.get_object(self._repository_id, ref, path))
        except ApiException as answer:
            if answer.status == HTTPStatus.GONE:
                return None
            raise

    def address(self, ref: str, path: str) -> str:
        """Return the address from which a path is read.

        Raises:
            ApiException: If there is no such path.
        """
        return str(self._objects.stat_object(self._repository_id, ref, path).physical_address)


def prove(story: Story, reader: ApiReader, store: ObjectStore) -> Proof:
    """Compare the expected fate of every object of a story with the actual one.

    Args:
        story: The fate of every object, written down before the collection.
        reader: The lakeFS API.
        store: The store of the repository's namespace.
    """
    listed = {key for batch in store.list("data/") for key in batch.column("key").to_pylist()}
    failures: list[str] = []

    def passed(files: Iterable[StoryFile], problem: Callable[[StoryFile], str | None]) -> int:
        found = [problem(file) for file in files]
        failures.extend(text for text in found if text is not None)
        return found.count(None)

    still_there, not_there = partial(_still_there, listed), partial(_not_there, store, listed)
    at_a_path = [file for file in story.files if file.ref is not None]
    pathless = [file for file in story.files if file.ref is None]
    proof = Proof(
        answered_gone=passed(
            (file for file in at_a_path if file.deleted), partial(_not_gone, reader)
        ),
        absent=passed((file for file in pathless if file.deleted), still_there),
        read=passed(
            (file for file in at_a_path if not file.deleted), partial(_not_readable, reader)
        ),
        read_from_store=passed((file for file in pathless if not file.deleted), not_there),
        listed=len(listed),
    )
    # The store is asked itself, whatever the API said.
    passed((file for file in at_a_path if file.deleted), still_there)
    passed((file for file in at_a_path if not file.deleted), not_there)
    known = {file.address for file in story.files}
    failures += [
        f"{address} is in the store, and nobody put it there" for address in sorted(listed - known)
    ]
    return replace(proof, failures=tuple(failures))


def _still_there(listed: AbstractSet[str], file: StoryFile) -> str | None:
    if file.address in listed:
        return f"{file.address} is still in the store; it was to go: {file.reason}"
    return None


def _not_there(store: ObjectStore, listed: AbstractSet[str], file: StoryFile) -> str | None:
    if file.address not in listed:
        return f"{file.address} ({file.path}) is not in the store; it was to be kept: {file.reason}"
    if store.read(file.address) != file.data:
        return f"{file.address} is not as it was written"
    return None


def _not_gone(reader: ApiReader, file: StoryFile) -> str | None:
    assert file.ref is not None  # noqa: S101 - the caller chose by it
    try:
        if reader.read(file.ref, file.path) is None:
            return None
    except ApiException as answer:
        return f"{file.path} at {file.ref} answers {answer.status}, wanted 410"
    return f"{file.path} at {file.ref} can still be read; it was to go: {file.reason}"


def _not_readable(reader: ApiReader, file: StoryFile) -> str | None:
    assert file.ref is not None  # noqa: S101 - the caller chose by it
    try:
        data, address = reader.read(file.ref, file.path), reader.address(file.ref, file.path)
    except ApiException as answer:
        return (
            f"{file.path} at {file.ref} answers {answer.status}; it was to be kept: {file.reason}"
        )
    if data is None:
        return f"{file.path} at {file.ref} answers 410; it was to be kept: {file.reason}"
    # A linked object's entry shows the blockstore's path twice. The end of the entry names the
    # object itself.
    if not address.endswith(f"/{file.address}"):
        return f"{file.path} at {file.ref} is read from {address}, wanted {file.address}"
    return (
        None
        if data == file.data
        else f"{file.path} at {file.ref} has other bytes than were uploaded"
    )
