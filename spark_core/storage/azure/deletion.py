"""Send a bulk deletion to Azure, and read what it answers for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from azure.storage.blob import ContainerClient

from spark_core.storage.azure.account import Account
from spark_core.storage.azure.errors import (
    CLIENT_ERRORS,
    AzureFailure,
    deletion_answer,
    failure_of,
)
from spark_core.storage.azure.listing_pages import batch_answers
from spark_core.storage.deletion import KeyAnswer

# Answers to a whole bulk deletion that mean "not here" or "not so". Then keys are deleted one by
# one.
_NO_BULK = {400, 404, 405, 409, 411, 415, 501}

# The status of a bulk deletion, and of each key of it that is gone.
_ANSWERED_BY_KEY = 202


def send_bulk(
    container: ContainerClient, account: Account, names: Sequence[str]
) -> tuple[Any, AzureFailure | None]:
    """Send one bulk request, snapshots included.

    The client itself repeats a request that was throttled as a whole. A request that it sent twice,
    because the first answer was lost, ends in `already_gone`.

    Returns:
        The answer if it is one for each key, else None; and what the client failed with.
    """
    answers: list[Any] = []
    more: dict[str, Any] = {"url_prepend": account.name} if account.path_style else {}
    failure: AzureFailure | None = None
    try:
        container.delete_blobs(
            *names,
            delete_snapshots="include",
            raise_on_any_failure=False,
            raw_response_hook=lambda answer: answers.append(answer.http_response),
            **more,
        )
    except CLIENT_ERRORS as error:
        failure = failure_of(error)
    if answers and answers[-1].status_code == _ANSWERED_BY_KEY:
        # This stands whatever the client made of the answer: it knows the keys only by position.
        return answers[-1], failure
    return None, failure


def knows_no_bulk(failure: AzureFailure) -> bool:
    """Say whether a failure means that the store takes no bulk requests."""
    return failure.status in _NO_BULK and failure.code != "ContainerNotFound"


def answers_by_key(keys: Sequence[str], answer: Any) -> Mapping[str, KeyAnswer]:
    """Read what the store answers for each key.

    A refusal that names no key holds for all keys without an answer of their own. A confirmation
    that names no key confirms nothing: only one blob can be said to be gone.
    """
    found, whole = batch_answers(answer.body(), answer.headers.get("Content-Type", ""), len(keys))
    answers: dict[str, KeyAnswer] = {}
    for number, key in enumerate(keys):
        failure = found.get(number)
        if failure is not None and failure.status == _ANSWERED_BY_KEY:
            answers[key] = KeyAnswer("deleted")
        elif failure is not None:
            answers[key] = deletion_answer(failure, again=True)
        elif whole is not None and not whole.absent:
            answers[key] = deletion_answer(whole, again=True)
    return answers
